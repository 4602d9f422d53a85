import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Sends as RocketMQ's example BatchProducer does, from threads that share a producer: NAMESRV TOPIC SIZE. Each line of the input
 * is a round, "BATCH THREADS MILLISECONDS"; a batch of 1 is a plain synchronous send. One line of JSON a round. The topic is
 * made first, with QUEUES queues at each broker.
 */
public class PeerLoad {
    static final int QUEUES = 4;

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("peer-load");
        producer.setNamesrvAddr(arguments[0]);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        try {
            createTopic(arguments[0], arguments[1]);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        byte[] body = new byte[Integer.parseInt(arguments[2])];
        Arrays.fill(body, (byte) 'x');
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in));
        for (String line = rounds.readLine(); line != null; line = rounds.readLine()) {
            String[] words = line.split(" ");
            int batch = Integer.parseInt(words[0]);
            int threads = Integer.parseInt(words[1]);
            System.out.println(round(producer, arguments[1], body, batch, threads, Long.parseLong(words[2])));
            System.out.flush();
        }
        System.exit(0); // threads of the client's own go on
    }

    static void createTopic(String namesrv, String topic) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("peer-topic");
        admin.setVipChannelEnabled(false);
        admin.start();
        while (admin.examineBrokerClusterInfo().getBrokerAddrTable().isEmpty()) {
            Thread.sleep(100); // until the broker has registered
        }
        for (BrokerData broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            admin.createAndUpdateTopicConfig(broker.selectBrokerAddr(), new TopicConfig(topic, QUEUES, QUEUES));
        }
        admin.shutdown();
    }

    static String round(DefaultMQProducer producer, String topic, byte[] body, int batch, int threads, long milliseconds)
            throws Exception {
        AtomicLong failed = new AtomicLong();
        List<List<Long>> delays = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        long begin = System.nanoTime();
        long end = begin + milliseconds * 1_000_000;
        for (int number = 0; number < threads; number++) {
            List<Long> mine = new ArrayList<>();
            delays.add(mine);
            Thread thread = new Thread(() -> {
                for (long before = System.nanoTime(); before < end; before = System.nanoTime()) {
                    try {
                        if (send(producer, topic, body, batch).getSendStatus() == SendStatus.SEND_OK) {
                            mine.add(System.nanoTime() - before);
                            continue;
                        }
                    } catch (Exception error) {
                        System.err.println(error);
                    }
                    failed.incrementAndGet();
                }
            });
            running.add(thread);
            thread.start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        long[] sorted = delays.stream().flatMap(List::stream).mapToLong(Long::longValue).sorted().toArray();
        return String.format(Locale.ROOT, "{\"messages_per_second\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"failed\": %d}",
            sorted.length * batch / seconds, part(sorted, 0.50), part(sorted, 0.99), failed.get());
    }

    static SendResult send(DefaultMQProducer producer, String topic, byte[] body, int batch) throws Exception {
        if (batch == 1) {
            return producer.send(new Message(topic, body));
        }
        List<Message> messages = new ArrayList<>(batch);
        for (int number = 0; number < batch; number++) {
            messages.add(new Message(topic, body));
        }
        return producer.send(messages);
    }

    /** In microseconds; 0 if nothing was sent. */
    static double part(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) (share * (sorted.length - 1))] / 1e3;
    }
}
