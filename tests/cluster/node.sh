#!/bin/sh
# Runs a command as on a machine of its own: node.sh FOLDER SPARK JAVA HIDDEN COMMAND..., in a mount namespace of its own.
# It has this machine's system, its network, and Spark, Java and a folder under /mnt. Of the places in HIDDEN, with colons
# between them, it sees nothing.
set -eu
folder=$1 spark=$2 java=$3 hidden=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/node /mnt/spark /mnt/java
mount --bind "$folder" /mnt/node
mount --bind "$spark" /mnt/spark
mount --bind "$java" /mnt/java
IFS=:
for place in $hidden; do
    mount -t tmpfs -o mode=1777 tmpfs "$place"
done
unset IFS
cd /mnt/node
exec "$@"
