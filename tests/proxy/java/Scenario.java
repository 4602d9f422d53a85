import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What RocketMQ's Java client does against the address of a name server: NAMESRV SCENARIO name=value ... ; one line a fact. */
public class Scenario extends Driver {
    static String namesrv;

    static <C extends ClientConfig> C set(C client) {
        client.setNamesrvAddr(namesrv);
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(1000);
        client.setInstanceName("i" + System.nanoTime());
        if (ASKED.containsKey("tls")) {
            client.setUseTLS(true);
        }
        client.setVipChannelEnabled(ASKED.containsKey("vip"));
        return client;
    }

    static DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = set(new DefaultMQProducer(group));
        producer.start();
        return producer;
    }

    static Message message(String body) {
        return new Message(ask("topic", ""), body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static void told(String what, SendResult result) {
        tell("sent", what, result.getMsgId(), result.getOffsetMsgId(), result.getMessageQueue().getQueueId(),
            result.getQueueOffset(), result.getSendStatus());
    }

    /** One of each kind. */
    static void send() throws Exception {
        DefaultMQProducer producer = producer("java-sends");
        Message plain = message("plain");
        plain.setTags("blue");
        plain.setKeys("key-1");
        plain.putUserProperty("region", "eu");
        SendResult first = producer.send(plain);
        told("plain", first);
        char[] many = new char[100_000];
        Arrays.fill(many, 'x');
        told("large", producer.send(message(new String(many))));
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            batch.add(message("batch-" + number));
        }
        SendResult batched = producer.send(batch);
        tell("batch", batched.getMsgId().split(",").length, batched.getSendStatus());
        for (int number = 0; number < 5; number++) {
            told("ordered-" + number, producer.send(message("ordered-" + number), (queues, one, key) -> queues.get(3), "k"));
        }
        Message delayed = message("delayed");
        delayed.setDelayTimeLevel(1);
        told("delayed", producer.send(delayed));
        producer.sendOneway(message("one-way"));
        CountDownLatch answered = new CountDownLatch(50);
        AtomicInteger failed = new AtomicInteger();
        for (int number = 0; number < 50; number++) {
            producer.send(message("async-" + number), new SendCallback() {
                public void onSuccess(SendResult result) {
                    answered.countDown();
                }

                public void onException(Throwable error) {
                    failed.incrementAndGet();
                    answered.countDown();
                }
            });
        }
        answered.await(20, TimeUnit.SECONDS);
        tell("async", failed.get(), answered.getCount());
        tell("viewed", body(producer.viewMessage(ask("topic", ""), first.getOffsetMsgId())));
        tell("queried", body(producer.queryMessage(ask("topic", ""), "key-1", 8, 0, Long.MAX_VALUE).getMessageList().get(0)));
        try {
            producer.send(new Message("nowhere-" + System.nanoTime(), new byte[1]));
        } catch (Exception error) {
            tell("nowhere", error.getClass().getSimpleName());
        }
        producer.shutdown();
    }

    static void got(MessageExt one) {
        tell("got", body(one).length() > 100 ? "long " + body(one).length() : body(one), one.getTags(), one.getReconsumeTimes(),
            one.getQueueId(), one.getQueueOffset(), one.getTopic(), one.getProperty("region"));
    }

    /** Until `count` came; the bodies `fails` fail once. */
    static void push() throws Exception {
        DefaultMQPushConsumer consumer = set(new DefaultMQPushConsumer(ask("group", "")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (ASKED.containsKey("sql")) {
            consumer.subscribe(ask("topic", ""), MessageSelector.bySql(ask("sql", "")));
        } else {
            consumer.subscribe(ask("topic", ""), ask("tags", "*"));
        }
        CountDownLatch left = new CountDownLatch(number("count", 1));
        String fails = ask("fails", "none");
        if (ASKED.containsKey("orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(100);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt one : messages) {
                    got(one);
                    if (body(one).equals(fails) && one.getReconsumeTimes() == 0) {
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    left.countDown();
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt one : messages) {
                    got(one);
                    if (body(one).equals(fails) && one.getReconsumeTimes() == 0) {
                        context.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    left.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        tell("begun");
        tell("left", left.await(number("seconds", 40), TimeUnit.SECONDS) ? 0 : left.getCount());
        consumer.shutdown();
    }

    /** A lite pull consumer. */
    static void pull() throws Exception {
        DefaultLitePullConsumer consumer = set(new DefaultLitePullConsumer(ask("group", "")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(ask("topic", ""), ask("tags", "*"));
        consumer.setAutoCommit(false);
        consumer.start();
        tell("begun");
        long end = System.currentTimeMillis() + 1000L * number("seconds", 40);
        int count = 0;
        while (count < number("count", 1) && System.currentTimeMillis() < end) {
            for (MessageExt one : consumer.poll(500)) {
                got(one);
                count++;
            }
            consumer.commitSync();
        }
        Thread.sleep(200);
        for (MessageQueue queue : consumer.fetchMessageQueues(ask("topic", ""))) {
            tell("committed", queue.getQueueId(), consumer.committed(queue));
        }
        consumer.shutdown();
    }

    /** One is committed at once, one rolled back, one decided when the broker asks. */
    static void transaction() throws Exception {
        TransactionMQProducer producer = set(new TransactionMQProducer(ask("group", "java-transactions")));
        CountDownLatch checked = new CountDownLatch(1);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                tell("checked", body(message), message.getTransactionId());
                checked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        for (LocalTransactionState state : LocalTransactionState.values()) {
            told(state.name(), producer.sendMessageInTransaction(message(state.name()), state));
        }
        tell("asked", checked.await(number("seconds", 60), TimeUnit.SECONDS));
        Thread.sleep(500);
        producer.shutdown();
    }

    /** A request, and who replies to it. */
    static void request() throws Exception {
        DefaultMQProducer replier = producer("java-repliers");
        DefaultMQPushConsumer consumer = set(new DefaultMQPushConsumer(ask("group", "")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(ask("topic", ""), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                try {
                    replier.send(MessageUtil.createReplyMessage(one, ("re: " + body(one)).getBytes(StandardCharsets.UTF_8)), 3000);
                } catch (Exception error) {
                    tell("failed", error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = producer("java-requesters");
        for (int number = 0; number < 3; number++) {
            tell("reply", body(producer.request(message("question-" + number), 15_000)));
        }
        producer.shutdown();
        consumer.shutdown();
        replier.shutdown();
    }

    /** Numbers, one after the other, until stdin ends; each that was acknowledged is told. */
    static void numbers() throws Exception {
        DefaultMQProducer producer = producer("java-numbers");
        producer.setRetryTimesWhenSendFailed(10);
        producer.setSendMsgTimeout(20_000);
        for (int number = 0; System.in.available() == 0; number++) {
            try {
                producer.send(message("" + number));
                tell("acked", number);
            } catch (Exception error) {
                tell("failed", number, error);
            }
        }
        producer.shutdown();
    }

    public static void main(String[] words) throws Exception {
        namesrv = words[0];
        read(words);
        perform(Scenario.class, words[1]);
    }
}
