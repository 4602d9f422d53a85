import java.io.FileInputStream;
import java.util.Properties;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's broker, from a broker.conf, until queue 0 of a topic holds so many messages, and a while longer for those that
 * must not come. Arguments: broker.conf, topic, messages, seconds at most, seconds longer.
 */
public class RunBroker {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        BrokerConfig broker = new BrokerConfig();
        NettyServerConfig server = new NettyServerConfig();
        MessageStoreConfig store = new MessageStoreConfig();
        for (Object config : new Object[] {broker, server, store}) {
            MixAll.properties2Object(properties, config);
        }
        BrokerController controller = new BrokerController(broker, server, new NettyClientConfig(), store);
        if (!controller.initialize()) {
            System.out.println("not initialized");
            System.exit(2);
        }
        controller.start();
        System.out.println("started");
        long wanted = Long.parseLong(arguments[2]);
        long deadline = System.currentTimeMillis() + 1000 * Long.parseLong(arguments[3]);
        while (controller.getMessageStore().getMaxOffsetInQueue(arguments[1], 0) < wanted
                && System.currentTimeMillis() < deadline) {
            Thread.sleep(100);
        }
        Thread.sleep(1000 * Long.parseLong(arguments[4]));
        System.out.println("messages " + controller.getMessageStore().getMaxOffsetInQueue(arguments[1], 0));
        controller.shutdown();
        System.exit(0);
    }
}
