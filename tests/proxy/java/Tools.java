import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's mqadmin, many times in one process: NAMESRV; each line of the input is a command, its words with tabs between. */
public class Tools {
    public static void main(String[] arguments) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", arguments[0]);
        Path home = Path.of(System.getProperty("user.home"));
        System.setProperty("rocketmq.home.dir", home.toString());
        Files.createDirectories(home.resolve("conf"));
        Files.writeString(home.resolve("conf").resolve("logback_tools.xml"), "<configuration/>"); // which 4.9 wants
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            MQAdminStartup.main0(line.split("\t"), null);
            System.out.println("\n--end--");
            System.out.flush();
        }
        System.exit(0);
    }
}
