#!/bin/sh
# Which of N is this commit's turn, from 0 on, by its hash: so each has its turn without all of them being run for every commit.
#   sh tools/turn.sh 8
echo $((0x$(git rev-parse HEAD 2>/dev/null | cut -c 1-7 | grep . || echo 0) % $1))
