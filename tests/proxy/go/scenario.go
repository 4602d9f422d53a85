// What RocketMQ's Go client does against the address of a name server: NAMESRV SCENARIO name=value ...; one line a fact.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var asked = map[string]string{}

func tell(words ...interface{}) {
	texts := make([]string, len(words))
	for at, word := range words {
		texts[at] = fmt.Sprint(word)
	}
	fmt.Println(strings.Join(texts, "\t"))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func send(namesrv string) {
	one, err := rocketmq.NewProducer(producer.WithNameServer([]string{namesrv}), producer.WithGroupName("go-sends"))
	check(err)
	check(one.Start())
	plain := primitive.NewMessage(asked["topic"], []byte("plain"))
	plain.WithTag("blue").WithKeys([]string{"key-1"}).WithProperty("region", "eu")
	delayed := primitive.NewMessage(asked["topic"], []byte("delayed"))
	delayed.WithDelayTimeLevel(1)
	large := primitive.NewMessage(asked["topic"], []byte(strings.Repeat("x", 50000)))
	for _, message := range []*primitive.Message{plain, large, delayed} {
		result, err := one.SendSync(context.Background(), message)
		check(err)
		tell("sent", result.MsgID, result.OffsetMsgID, result.MessageQueue.QueueId, result.QueueOffset, result.Status)
	}
	batch := []*primitive.Message{}
	for number := 0; number < 10; number++ {
		batch = append(batch, primitive.NewMessage(asked["topic"], []byte(fmt.Sprintf("batch-%d", number))))
	}
	result, err := one.SendSync(context.Background(), batch...)
	check(err)
	tell("batch", result.Status)
	check(one.SendOneWay(context.Background(), primitive.NewMessage(asked["topic"], []byte("one-way"))))
	time.Sleep(300 * time.Millisecond)
	check(one.Shutdown())
}

func push(namesrv string) {
	count, err := strconv.Atoi(asked["count"])
	check(err)
	one, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{namesrv}),
		consumer.WithGroupName(asked["group"]),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(asked["orderly"] != ""),
	)
	check(err)
	done := make(chan bool)
	var lock sync.Mutex
	tags := asked["tags"]
	if tags == "" {
		tags = "*"
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	handle := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range messages {
			body := string(message.Body)
			if len(body) > 100 {
				body = fmt.Sprintf("long %d", len(body))
			}
			tell("got", body, message.GetTags(), message.ReconsumeTimes, message.Queue.QueueId, message.QueueOffset)
			if body == asked["fails"] && message.ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
			count--
			if count == 0 {
				close(done)
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	check(one.Subscribe(asked["topic"], selector, handle))
	check(one.Start())
	select {
	case <-done:
	case <-time.After(60 * time.Second):
	}
	tell("left", count)
	check(one.Shutdown())
}

func main() {
	rlog.SetLogLevel("error")
	for _, word := range os.Args[3:] {
		parts := strings.SplitN(word, "=", 2)
		asked[parts[0]] = parts[1]
	}
	map[string]func(string){"send": send, "push": push}[os.Args[2]](os.Args[1])
	tell("done")
}
