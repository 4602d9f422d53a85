// What RocketMQ's Java client of gRPC does against a proxy: ENDPOINTS SCENARIO name=value ...; one line a fact.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class GrpcScenario extends Driver {
    /** A second after its stream was lost a client begins another one, also if it was closed meanwhile: then close() waits for
     *  that stream for ever (5.2.0). */
    static final int RENEWED_MS = 1_500;

    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static ClientConfiguration configuration;

    static MessageBuilder message(String body) {
        return PROVIDER.newMessageBuilder().setTopic(ask("topic", "")).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static Producer producer() throws Exception {
        ProducerBuilder builder = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(ask("topic", ""));
        return builder.setMaxAttempts(number("attempts", 3)).setTransactionChecker(view -> {
            tell("checked", body(view));
            return body(view).startsWith("commit") ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
        }).build();
    }

    static String body(MessageView one) {
        return StandardCharsets.UTF_8.decode(one.getBody()).toString();
    }

    static void got(MessageView one) {
        String body = body(one);
        tell("got", body.length() > 100 ? "long " + body.length() : body, one.getDeliveryAttempt(), one.getTag().orElse(""),
            String.join(",", one.getKeys()), one.getProperties().getOrDefault("region", ""), one.getMessageGroup().orElse(""),
            one.getMessageId(), one.getLiteTopic().orElse(""));
    }

    static SendReceipt sent(String what, Producer producer, Message message) throws Exception {
        SendReceipt receipt = producer.send(message);
        tell("sent", what, receipt.getMessageId());
        return receipt;
    }

    /** One of each kind. */
    static void send() throws Exception {
        Producer producer = producer();
        sent("plain", producer, message("plain").setTag("blue").setKeys("key-1").addProperty("region", "eu").build());
        char[] many = new char[100_000];
        Arrays.fill(many, 'x');
        sent("large", producer, message(new String(many)).build());
        for (int number = 0; number < 5; number++) {
            sent("ordered", producer, message("ordered-" + number).setMessageGroup("group-7").build());
        }
        sent("delayed", producer, message("delayed").setDeliveryTimestamp(System.currentTimeMillis() + 1000).build());
        sent("first", producer, message("first").setPriority(3).build());
        SendReceipt never =
            sent("never", producer, message("never").setDeliveryTimestamp(System.currentTimeMillis() + 60_000).build());
        tell("recalled", producer.recallMessage(ask("topic", ""), never.getRecallHandle()).getMessageId());
        List<CompletableFuture<SendReceipt>> answers = new ArrayList<>();
        for (int number = 0; number < 50; number++) {
            answers.add(producer.sendAsync(message("async-" + number).build()));
        }
        for (CompletableFuture<SendReceipt> answer : answers) {
            answer.get(20, TimeUnit.SECONDS);
        }
        tell("async", answers.size());
        try {
            producer.send(PROVIDER.newMessageBuilder().setTopic("nowhere").setBody(new byte[1]).build());
        } catch (Exception error) {
            tell("nowhere", error.getClass().getSimpleName());
        }
        producer.close();
    }

    static Map<String, FilterExpression> subscription() {
        FilterExpression filter = ASKED.containsKey("sql")
            ? new FilterExpression(ask("sql", ""), FilterExpressionType.SQL92) : new FilterExpression(ask("tags", "*"));
        return Map.of(ask("topic", ""), filter);
    }

    static SimpleConsumer consumer() throws Exception {
        return PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(ask("group", ""))
            .setAwaitDuration(Duration.ofSeconds(number("wait", 5))).setSubscriptionExpressions(subscription()).build();
    }

    /** Receives until there were so many; the first attempt at a body of `again` comes again after a second. */
    static void simple() throws Exception {
        SimpleConsumer consumer = consumer();
        long end = System.currentTimeMillis() + 1000L * number("seconds", 30);
        int count = 0;
        while (count < number("count", 1) && System.currentTimeMillis() < end) {
            for (MessageView one : consumer.receive(32, Duration.ofSeconds(20))) {
                got(one);
                count++;
                if (body(one).equals(ask("again", "")) && one.getDeliveryAttempt() == 1) {
                    consumer.changeInvisibleDuration(one, Duration.ofSeconds(1));
                } else {
                    consumer.ack(one);
                }
            }
        }
        consumer.close();
    }

    /** Until `count` came; the body `fails` fails each time. */
    static void push() throws Exception {
        CountDownLatch left = new CountDownLatch(number("count", 1));
        PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(ask("group", "")).setSubscriptionExpressions(subscription()).setMessageListener(listener(left)).build();
        tell("left", left.await(number("seconds", 30), TimeUnit.SECONDS) ? 0 : left.getCount());
        Thread.sleep(number("rest_ms", 0)); // it is not closed: that takes as long as its long poll
    }

    static MessageListener listener(CountDownLatch left) {
        return one -> {
            got(one);
            left.countDown();
            return body(one).equals(ask("fails", "")) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        };
    }

    /** Lite topics by name, parted by commas. */
    static void lite() throws Exception {
        CountDownLatch left = new CountDownLatch(number("count", 1));
        LitePushConsumer consumer = PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(ask("group", "")).bindTopic(ask("topic", "")).setMessageListener(listener(left)).build();
        Producer producer = producer();
        for (String name : ask("names", "").split(",")) {
            consumer.subscribeLite(name);
        }
        for (int number = 0; number < 5; number++) {
            for (String name : ask("names", "").split(",")) {
                sent("lite", producer, message(name + "-" + number).setLiteTopic(name).build());
            }
        }
        sent("other", producer, message("nobody's").setLiteTopic("nobodys").build());
        tell("left", left.await(number("seconds", 30), TimeUnit.SECONDS) ? 0 : left.getCount());
    }

    /** Two are decided at once, two when they are asked about. */
    static void transaction() throws Exception {
        Producer producer = producer();
        for (String body : new String[] {"commit now", "rollback now", "commit later", "rollback later"}) {
            Transaction transaction = producer.beginTransaction();
            tell("sent", body, producer.send(message(body).build(), transaction).getMessageId());
            if (body.equals("commit now")) {
                transaction.commit();
            } else if (body.equals("rollback now")) {
                transaction.rollback();
            }
        }
        System.in.read();
        producer.close();
    }

    /** Numbers, one after the other, until stdin ends; each that was answered is told. */
    static void numbers() throws Exception {
        Producer producer = producer();
        for (int number = 0; System.in.available() == 0; number++) {
            try {
                producer.send(message("" + number).build());
                tell("acked", number);
            } catch (Exception error) {
                tell("failed", number, error);
                Thread.sleep(50);
            }
        }
        Thread.sleep(RENEWED_MS);
        producer.close();
    }

    /** Receives and acknowledges until stdin ends. What was acknowledged is told after the answer. */
    static void drain() throws Exception {
        SimpleConsumer consumer = consumer();
        while (System.in.available() == 0) {
            try {
                for (MessageView one : consumer.receive(32, Duration.ofSeconds(5))) {
                    tell("got", body(one));
                    consumer.ack(one);
                    tell("acked", body(one));
                }
            } catch (Exception error) {
                tell("failed", error);
                Thread.sleep(50);
            }
        }
        Thread.sleep(RENEWED_MS);
        consumer.close();
    }

    public static void main(String[] words) throws Exception {
        read(words);
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(words[0]);
        if (!ASKED.containsKey("tls")) {
            builder.enableSsl(false);
        }
        if (ASKED.containsKey("key")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(ask("key", ""), ask("secret", "")));
        }
        configuration = builder.setRequestTimeout(Duration.ofSeconds(number("timeout", 3))).build();
        perform(GrpcScenario.class, words[1]);
    }
}
