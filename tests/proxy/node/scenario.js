// What RocketMQ's Node client does against a proxy: ENDPOINTS SCENARIO name=value ...; one line a fact.
'use strict';

const { Producer, SimpleConsumer, PushConsumer, FilterExpression, ConsumeResult } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [endpoints, scenario, ...words] = process.argv.slice(2);
const asked = Object.fromEntries(words.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]));
const topic = asked.topic;
const quiet = { info() {}, warn() {}, debug() {}, error: (...what) => console.error(...what) };
const common = { endpoints, namespace: '', logger: quiet };
if (asked.key) common.sessionCredentials = { accessKey: asked.key, accessSecret: asked.secret };

let hasEnded = false;
const ended = new Promise((resolve) => process.stdin.on('data', resolve).on('end', resolve)).then(() => (hasEnded = true));
const tell = (...facts) => process.stdout.write(facts.join('\t') + '\n');
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const message = (body, more = {}) => ({ topic, body: Buffer.from(body), ...more });

async function producer() {
  const checker = {
    async check(view) {
      tell('checked', view.body);
      return view.body.toString().startsWith('commit') ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
    },
  };
  const made = new Producer({ ...common, topic, checker });
  await made.startup();
  return made;
}

function got(one) {
  const body = one.body.toString();
  const said = body.length > 100 ? `long ${body.length}` : body;
  const properties = [one.tag ?? '', one.keys.join(','), one.properties.get('region') ?? '', one.messageGroup ?? ''];
  tell('got', said, one.deliveryAttempt, ...properties, one.messageId, one.liteTopic ?? '');
}

function subscription() {
  const filter = asked.sql ? new FilterExpression(asked.sql, FilterType.SQL) : new FilterExpression(asked.tags ?? '*');
  return new Map([[topic, filter]]);
}

async function consumer() {
  const wait = Number(asked.wait ?? 5) * 1000;
  const made = new SimpleConsumer({ ...common, consumerGroup: asked.group, subscriptions: subscription(), awaitDuration: wait });
  await made.startup();
  return made;
}

const scenarios = {
  // One of each kind.
  async send() {
    const sender = await producer();
    const sent = async (what, one) => {
      const receipt = await sender.send(one);
      tell('sent', what, receipt.messageId);
      return receipt;
    };
    const properties = new Map([['region', 'eu']]);
    await sent('plain', message('plain', { tag: 'blue', keys: ['key-1'], properties }));
    await sent('large', message('x'.repeat(100_000)));
    for (let number = 0; number < 5; number++) await sent('ordered', message(`ordered-${number}`, { messageGroup: 'group-7' }));
    await sent('delayed', message('delayed', { delay: 1000 }));
    await sent('first', message('first', { priority: 3 }));
    const never = await sent('never', message('never', { delay: 60_000 }));
    tell('recalled', (await sender.recallMessage(topic, never.recallHandle)).messageId);
    const many = Array.from({ length: 50 }, (_, number) => sender.send(message(`async-${number}`)));
    tell('async', (await Promise.all(many)).length);
    try {
      await sender.send({ topic: 'nowhere', body: Buffer.from('x') });
    } catch (error) {
      tell('nowhere', error.constructor.name);
    }
    await sender.shutdown();
  },

  // Receives until there were so many; the first attempt at a body of `again` comes again after a second.
  async simple() {
    const receiver = await consumer();
    const end = Date.now() + 1000 * Number(asked.seconds ?? 30);
    let count = 0;
    while (count < Number(asked.count) && Date.now() < end) {
      for (const one of await receiver.receive(32, 20_000)) {
        got(one);
        count++;
        if (one.body.toString() === asked.again && one.deliveryAttempt === 1) await receiver.changeInvisibleDuration(one, 1000);
        else await receiver.ack(one);
      }
    }
    await receiver.shutdown();
  },

  // Until `count` came; the body `fails` fails each time.
  async push() {
    let left = Number(asked.count);
    let finish;
    const done = new Promise((resolve) => (finish = resolve));
    const messageListener = {
      async consume(one) {
        got(one);
        if (--left === 0) finish();
        return one.body.toString() === asked.fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    };
    const pushed = new PushConsumer({ ...common, consumerGroup: asked.group, subscriptions: subscription(), messageListener });
    await pushed.startup();
    await Promise.race([done, pause(1000 * Number(asked.seconds ?? 30))]);
    tell('left', Math.max(0, left));
    await pause(Number(asked.rest_ms ?? 300));
  },

  // Two are decided at once, two when they are asked about.
  async transaction() {
    const sender = await producer();
    for (const body of ['commit now', 'rollback now', 'commit later', 'rollback later']) {
      const transaction = sender.beginTransaction();
      tell('sent', body, (await sender.send(message(body), transaction)).messageId);
      if (body === 'commit now') await transaction.commit();
      else if (body === 'rollback now') await transaction.rollback();
    }
    await ended;
    await sender.shutdown();
  },

  // Numbers, one after the other, until stdin ends; each that was answered is told.
  async numbers() {
    const sender = await producer();
    for (let number = 0; !hasEnded; number++) {
      try {
        await sender.send(message(String(number)));
        tell('acked', number);
      } catch (error) {
        tell('failed', number, String(error).split('\n')[0]);
        await pause(50);
      }
    }
    await sender.shutdown();
  },

  // Receives and acknowledges until stdin ends. What was acknowledged is told after the answer.
  async drain() {
    const receiver = await consumer();
    while (!hasEnded) {
      try {
        for (const one of await receiver.receive(32, 5_000)) {
          tell('got', one.body);
          await receiver.ack(one);
          tell('acked', one.body);
        }
      } catch (error) {
        tell('failed', String(error).split('\n')[0]);
        await pause(50);
      }
    }
    await receiver.shutdown();
  },
};

scenarios[scenario]().then(
  () => {
    tell('done');
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
