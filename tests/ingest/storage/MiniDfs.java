import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS in one JVM, in the folder that is its first argument. Prints the name node's port, and ends when its input does. */
public final class MiniDfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new HdfsConfiguration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
        cluster.waitClusterUp();
        System.out.println("port " + cluster.getNameNodePort());
        while (System.in.read() != -1) {
            // Somebody holds the other end.
        }
        Runtime.getRuntime().halt(0);
    }
}
