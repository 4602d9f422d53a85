import java.io.FileInputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.EndTransactionRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's broker, from a broker.conf, does what a script says, one word and its arguments a line, and prints what came of
 * each line: bodies or numbers behind the line itself. Arguments: broker.conf, script.
 */
public class RunBroker {
    static BrokerController controller;
    static MessageStore store;
    static NettyRemotingClient client;
    static String address;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        BrokerConfig broker = new BrokerConfig();
        NettyServerConfig server = new NettyServerConfig();
        MessageStoreConfig config = new MessageStoreConfig();
        for (Object one : new Object[] {broker, server, config}) {
            MixAll.properties2Object(properties, one);
        }
        controller = new BrokerController(broker, server, new NettyClientConfig(), config);
        if (!controller.initialize()) {
            System.out.println("not initialized");
            System.exit(2);
        }
        controller.start();
        store = controller.getMessageStore();
        client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        address = "127.0.0.1:" + server.getListenPort();
        int status = 0;
        try {
            for (String line : Files.readAllLines(Path.of(arguments[1]))) {
                System.out.println(line + " =" + result(line.split(" ")));
            }
        } catch (Exception error) {
            error.printStackTrace();
            status = 3;
        }
        client.shutdown();
        controller.shutdown();
        System.exit(status); // threads of its own go on
    }

    static String result(String[] words) throws Exception {
        switch (words[0]) {
            case "wait": { // topic, messages in its queue 0, seconds at most
                long deadline = System.currentTimeMillis() + 1000 * Long.parseLong(words[3]);
                while (count(words[1], 0) < Long.parseLong(words[2]) && System.currentTimeMillis() < deadline) {
                    Thread.sleep(100);
                }
                return " " + count(words[1], 0);
            }
            case "sleep": // seconds
                Thread.sleep(1000 * Long.parseLong(words[1]));
                return "";
            case "count": // topic, queue
                return " " + count(words[1], Integer.parseInt(words[2]));
            case "at": // topic, queue, queue offset
                return bodies(read(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), 1));
            case "key": { // topic, key
                QueryMessageResult found = store.queryMessage(words[1], words[2], 64, 0, Long.MAX_VALUE);
                String bodies = found == null ? "" : bodies(found.getMessageBufferList());
                return bodies;
            }
            case "id": { // physical offset
                MessageExt found = store.lookMessageByOffset(Long.parseLong(words[1]));
                return found == null ? "" : " " + text(found);
            }
            case "time": // topic, queue, time: the queue offset
                return " " + store.getOffsetInQueueByTime(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
            case "consume": { // group, topic, queue: from where the group is
                int queue = Integer.parseInt(words[3]);
                long begin = controller.getConsumerOffsetManager().queryOffset(words[1], words[2], queue);
                String bodies = bodies(read(words[2], queue, begin, 32));
                controller.getConsumerOffsetManager().commitOffset("", words[1], words[2], queue, count(words[2], queue));
                return bodies;
            }
            case "append": { // topic, queue, body, names of light queues
                MessageExtBrokerInner message = new MessageExtBrokerInner();
                message.setTopic(words[1]);
                message.setQueueId(Integer.parseInt(words[2]));
                message.setBody(words[3].getBytes(StandardCharsets.UTF_8));
                message.setBornTimestamp(System.currentTimeMillis());
                message.setBornHost(new InetSocketAddress("127.0.0.1", 1));
                message.setStoreHost(controller.getStoreHost());
                message.putUserProperty("sender", "RocketMQ");
                if (words.length > 4) { // light queues, joined by commas
                    MessageAccessor.putProperty(message, MessageConst.PROPERTY_INNER_MULTI_DISPATCH, words[4]);
                }
                message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
                return " " + store.putMessage(message).getPutMessageStatus();
            }
            case "inner": { // topic, queue, queue offset: the messages of the batch that has it, each with its queue offset
                StringBuilder found = new StringBuilder();
                for (ByteBuffer record : read(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), 1)) {
                    List<MessageExt> messages = new ArrayList<>();
                    MessageDecoder.decodeMessage(MessageDecoder.decode(record.slice(), true, true), messages);
                    for (MessageExt one : messages) {
                        found.append(' ').append(text(one)).append('@').append(one.getQueueOffset());
                        found.append(one.getTags() == null ? "" : one.getTags());
                    }
                }
                return found.toString();
            }
            case "batch": { // topic, queue, bodies, as its broker stores what a producer sends
                List<Message> messages = new ArrayList<>();
                for (String body : words[3].split(",")) {
                    messages.add(new Message(words[1], "java", body, body.getBytes(StandardCharsets.UTF_8)));
                }
                MessageExtBrokerInner batch = new MessageExtBrokerInner();
                batch.setTopic(words[1]);
                batch.setQueueId(Integer.parseInt(words[2]));
                batch.setBody(MessageDecoder.encodeMessages(messages));
                batch.setBornTimestamp(System.currentTimeMillis());
                batch.setBornHost(new InetSocketAddress("127.0.0.1", 1));
                batch.setStoreHost(controller.getStoreHost());
                batch.setSysFlag(MessageSysFlag.NEED_UNWRAP_FLAG | MessageSysFlag.INNER_BATCH_FLAG);
                MessageAccessor.putProperty(batch, MessageConst.PROPERTY_INNER_NUM, String.valueOf(messages.size()));
                batch.setPropertiesString(MessageDecoder.messageProperties2String(batch.getProperties()));
                return " " + store.putMessage(batch).getPutMessageStatus();
            }
            case "pop": // group, topic, messages, invisible ms, "ack" or "keep"
                return pop(words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]), words[5].equals("ack"));
            case "commit": { // producer group, physical offset of the half message, its queue offset
                EndTransactionRequestHeader header = new EndTransactionRequestHeader();
                header.setProducerGroup(words[1]);
                header.setCommitLogOffset(Long.parseLong(words[2]));
                header.setTranStateTableOffset(Long.parseLong(words[3]));
                header.setCommitOrRollback(8);
                header.setFromTransactionCheck(false);
                return " " + ask(RemotingCommand.createRequestCommand(RequestCode.END_TRANSACTION, header)).getCode();
            }
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static long count(String topic, int queue) throws Exception {
        return store.getMaxOffsetInQueue(topic, queue);
    }

    static Iterable<ByteBuffer> read(String topic, int queue, long offset, int count) {
        GetMessageResult found = store.getMessage("reader", topic, queue, offset, count, null);
        return found == null ? java.util.List.of() : found.getMessageBufferList();
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static String bodies(Iterable<ByteBuffer> records) {
        StringBuilder found = new StringBuilder();
        for (ByteBuffer record : records) {
            found.append(' ').append(text(MessageDecoder.decode(record.slice(), true, true)));
        }
        return found.toString();
    }

    static RemotingCommand ask(RemotingCommand request) throws Exception {
        return client.invokeSync(address, request, 10_000);
    }

    static String pop(String group, String topic, int wanted, long invisibleMs, boolean acks) throws Exception {
        StringBuilder found = new StringBuilder();
        int empty = 0;
        int count = 0;
        while (count < wanted && empty < 8) { // the retry topic is looked at first by one pop in five
            PopMessageRequestHeader header = new PopMessageRequestHeader();
            header.setConsumerGroup(group);
            header.setTopic(topic);
            header.setQueueId(-1);
            header.setMaxMsgNums(Math.min(32, wanted - count));
            header.setInvisibleTime(invisibleMs);
            header.setPollTime(0);
            header.setBornTime(System.currentTimeMillis());
            header.setInitMode(0);
            header.setExpType("TAG");
            header.setExp("*");
            RemotingCommand reply = ask(RemotingCommand.createRequestCommand(RequestCode.POP_MESSAGE, header));
            if (reply.getCode() != 0 || reply.getBody() == null) {
                empty++;
                continue;
            }
            empty = 0;
            var fields = reply.getExtFields();
            var starts = ExtraInfoUtil.parseStartOffsetInfo(
                    fields.get("startOffsetInfo"));
            for (MessageExt message : MessageDecoder.decodesBatch(ByteBuffer.wrap(reply.getBody()), true, true, true)) {
                found.append(' ').append(text(message)).append('/').append(message.getReconsumeTimes());
                count++;
                if (!acks) {
                    continue;
                }
                // one of a retry topic comes under its first topic, with its check point
                String checkPoint = message.getProperty(MessageConst.PROPERTY_POP_CK);
                if (checkPoint == null) {
                    String key = ExtraInfoUtil.getStartOffsetInfoMapKey(message.getTopic(), message.getQueueId());
                    checkPoint = ExtraInfoUtil.buildExtraInfo(starts.get(key), Long.parseLong(fields.get("popTime")),
                            Long.parseLong(fields.get("invisibleTime")), Integer.parseInt(fields.get("reviveQid")),
                            message.getTopic(), "broker-a", message.getQueueId(), message.getQueueOffset());
                }
                AckMessageRequestHeader ack = new AckMessageRequestHeader();
                ack.setConsumerGroup(group);
                ack.setTopic(ExtraInfoUtil.getRealTopic(ExtraInfoUtil.split(checkPoint), message.getTopic(), group));
                ack.setQueueId(message.getQueueId());
                ack.setOffset(message.getQueueOffset());
                ack.setExtraInfo(checkPoint);
                RemotingCommand done = ask(RemotingCommand.createRequestCommand(RequestCode.ACK_MESSAGE, ack));
                if (done.getCode() != 0) {
                    found.append(" ack:").append(done.getCode()).append(done.getRemark());
                }
            }
        }
        return found.toString();
    }
}
