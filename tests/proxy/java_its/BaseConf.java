package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.client.rmq.RMQAsyncSendProducer;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.client.rmq.RMQTransactionalProducer;
import org.apache.rocketmq.test.clientinterface.AbstractMQConsumer;
import org.apache.rocketmq.test.clientinterface.AbstractMQProducer;
import org.apache.rocketmq.test.factory.ConsumerFactory;
import org.apache.rocketmq.test.listener.AbstractListener;
import org.apache.rocketmq.test.util.MQAdminTestUtils;
import org.apache.rocketmq.test.util.MQRandomUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Stands in for the class of this name in RocketMQ's tests, which starts RocketMQ's brokers: here they are those behind a proxy.
 * The address of the proxy is the system property "proxy"; its brokers are told by it, three for tests that
 * need three. What a test does with a broker's own object fails, but for its address.
 */
public class BaseConf {
    public static final String NAMESRV_ADDR = System.getProperty("proxy");
    protected static final String CLUSTER_NAME;
    protected static final String BROKER1_NAME;
    protected static final String BROKER2_NAME;
    protected static final String BROKER3_NAME;
    protected static final int BROKER_NUM = 3;
    protected static final int WAIT_TIME = 5;
    protected static final int CONSUME_TIME = Integer.getInteger("consumeMs", 120_000);
    protected static final int QUEUE_NUMBERS = 8;
    protected static NamesrvController namesrvController;
    protected static BrokerController brokerController1;
    protected static BrokerController brokerController2;
    protected static BrokerController brokerController3;
    protected static List<BrokerController> brokerControllerList;
    protected static Map<String, BrokerController> brokerControllerMap = new HashMap<>();
    protected static List<Object> mqClients = new ArrayList<>();
    protected static boolean debug;

    static {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, "" + MQVersion.CURRENT_VERSION);
        ClusterInfo cluster = MQAdminTestUtils.getCluster(NAMESRV_ADDR);
        CLUSTER_NAME = cluster.getClusterAddrTable().keySet().iterator().next();
        String[] names = new TreeSet<>(cluster.getBrokerAddrTable().keySet()).toArray(new String[0]);
        BROKER1_NAME = names[0];
        BROKER2_NAME = names[1 % names.length];
        BROKER3_NAME = names[2 % names.length];
        for (String name : names) {
            brokerControllerMap.put(name, standIn(name, cluster.getBrokerAddrTable().get(name).selectBrokerAddr()));
        }
        brokerController1 = brokerControllerMap.get(BROKER1_NAME);
        brokerController2 = brokerControllerMap.get(BROKER2_NAME);
        brokerController3 = brokerControllerMap.get(BROKER3_NAME);
        brokerControllerList = Arrays.asList(brokerController1, brokerController2, brokerController3);
        IntegrationTestBase.initMQAdmin(NAMESRV_ADDR);
    }

    /** Never started: it only knows its name and where the proxy stands for that broker. */
    private static BrokerController standIn(String name, String address) {
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(name);
        config.setBrokerClusterName(CLUSTER_NAME);
        config.setBrokerIP1(address.split(":")[0]);
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(System.getProperty("user.home") + "/" + name);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(Integer.parseInt(address.split(":")[1]));
        return new BrokerController(config, server, new NettyClientConfig(), store);
    }

    private static <C> C kept(C client) {
        synchronized (mqClients) {
            mqClients.add(client);
        }
        return client;
    }

    public static void waitBrokerRegistered(String namesrv, String cluster, int brokers) {
    }

    /** The proxy has no way to ask for it; a message is found by its id or key about this much later. */
    public boolean awaitDispatchMs(long timeMs) throws Exception {
        Thread.sleep(Math.min(timeMs, 1_000));
        return true;
    }

    public static String initTopic() {
        return initTopicWithName(MQRandomUtils.getRandomTopic());
    }

    public static String initTopic(TopicMessageType type) {
        return initTopicWithName(MQRandomUtils.getRandomTopic(), type);
    }

    public static String initTopicWithName(String topic) {
        IntegrationTestBase.initTopic(topic, NAMESRV_ADDR, CLUSTER_NAME, CQType.SimpleCQ);
        return topic;
    }

    public static String initTopicWithName(String topic, TopicMessageType type) {
        IntegrationTestBase.initTopic(topic, NAMESRV_ADDR, CLUSTER_NAME, type);
        return topic;
    }

    public static String initTopicOnSampleTopicBroker(String sample) {
        return initTopicOnSampleTopicBroker(MQRandomUtils.getRandomTopic(), sample);
    }

    public static String initTopicOnSampleTopicBroker(String sample, TopicMessageType type) {
        return initTopicOnSampleTopicBroker(MQRandomUtils.getRandomTopic(), sample, type);
    }

    public static String initTopicOnSampleTopicBroker(String topic, String sample) {
        IntegrationTestBase.initTopic(topic, NAMESRV_ADDR, sample, CQType.SimpleCQ);
        return topic;
    }

    public static String initTopicOnSampleTopicBroker(String topic, String sample, TopicMessageType type) {
        IntegrationTestBase.initTopic(topic, NAMESRV_ADDR, sample, type);
        return topic;
    }

    public static String initConsumerGroup() {
        return initConsumerGroup(MQRandomUtils.getRandomConsumerGroup());
    }

    public static String initConsumerGroup(String group) {
        SubscriptionGroupConfig settings = new SubscriptionGroupConfig();
        settings.setGroupName(group);
        return initConsumerGroup(settings);
    }

    public static String initConsumerGroup(SubscriptionGroupConfig settings) {
        MQAdminTestUtils.createSub(NAMESRV_ADDR, CLUSTER_NAME, settings);
        return settings.getGroupName();
    }

    public static DefaultMQAdminExt getAdmin(String namesrv) {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(3_000);
        admin.setNamesrvAddr(namesrv);
        admin.setPollNameServerInterval(100);
        return kept(admin);
    }

    public static RMQNormalProducer getProducer(String namesrv, String topic) {
        return getProducer(namesrv, topic, false);
    }

    public static RMQNormalProducer getProducer(String namesrv, String topic, boolean useTls) {
        return kept(new RMQNormalProducer(namesrv, topic, useTls));
    }

    public static RMQNormalProducer getProducer(String namesrv, String topic, String group, String instance) {
        return kept(new RMQNormalProducer(namesrv, topic, group, instance));
    }

    public static RMQTransactionalProducer getTransactionalProducer(
        String namesrv, String topic, TransactionListener listener) {
        return kept(new RMQTransactionalProducer(namesrv, topic, false, listener));
    }

    public static RMQAsyncSendProducer getAsyncProducer(String namesrv, String topic) {
        return kept(new RMQAsyncSendProducer(namesrv, topic));
    }

    public static RMQNormalConsumer getConsumer(
        String namesrv, String topic, String expression, AbstractListener listener) {
        return getConsumer(namesrv, topic, expression, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
        String namesrv, String topic, String expression, AbstractListener listener, boolean useTls) {
        return getConsumer(namesrv, initConsumerGroup(), topic, expression, listener, useTls);
    }

    public static RMQNormalConsumer getConsumer(
        String namesrv, String group, String topic, String expression, AbstractListener listener) {
        return getConsumer(namesrv, group, topic, expression, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
        String namesrv, String group, String topic, String expression, AbstractListener listener, boolean useTls) {
        return kept(ConsumerFactory.getRMQNormalConsumer(namesrv, group, topic, expression, listener, useTls));
    }

    public static Set<String> getBrokers() {
        return new HashSet<>(Arrays.asList(BROKER1_NAME, BROKER2_NAME, BROKER3_NAME));
    }

    public static void shutdown() {
        List<Object> clients;
        synchronized (mqClients) {
            clients = new ArrayList<>(mqClients);
            mqClients.clear();
        }
        shutdown(clients);
    }

    /** Each in a thread of its own: some take seconds. */
    public static void shutdown(List<Object> clients) {
        for (Object client : clients) {
            new Thread(() -> end(client)).start();
        }
    }

    private static void end(Object client) {
        if (client instanceof AbstractMQProducer) {
            ((AbstractMQProducer) client).shutdown();
        } else if (client instanceof AbstractMQConsumer) {
            ((AbstractMQConsumer) client).shutdown();
        } else if (client instanceof DefaultMQAdminExt) {
            ((DefaultMQAdminExt) client).shutdown();
        }
    }
}
