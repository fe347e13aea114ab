package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"
)

const (
	commandHello3    = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
	commandHello2    = "*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n"
	commandPing      = "*1\r\n$4\r\nPING\r\n"
	commandSubscribe = "*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n"
	messagePush      = "3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"
	subscribedPush   = "3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
	unsubscribedPush = "3\r\n+unsubscribe\r\n_\r\n:0\r\n"
)

// exchange contains the client's commands, the store's output, and the error expected at the last
// byte of that output.
type exchange struct {
	sent, comes string
	want        error
}

var exchanges = map[string]exchange{
	"one each":                           {commandPing + commandPing, "+PONG\r\n+PONG\r\n", nil},
	"one more":                           {commandPing, "+PONG\r\n+PONG\r\n", errUnsolicited},
	"nothing asked":                      {"", "_\r\n", errUnsolicited},
	"null push":                          {"", ">-1\r\n", errUnsolicited},
	"pushes":                             {commandPing, ">2\r\n+a\r\n+b\r\n>" + messagePush + "+PONG\r\n>" + messagePush, nil},
	"attribute of a push":                {"", "|1\r\n+a\r\n+b\r\n>2\r\n+a\r\n+b\r\n", nil},
	"attribute of an unasked reply":      {"", "|0\r\n+OK\r\n", errUnsolicited},
	"half a command":                     {commandPing[:9], "+PONG\r\n", errUnsolicited},
	"subscription":                       {commandSubscribe, ">" + subscribedPush + ">" + messagePush + ">" + subscribedPush + ">" + unsubscribedPush, nil},
	"confirmed too often":                {commandSubscribe, ">" + subscribedPush + ">" + subscribedPush + ">" + subscribedPush, errUnsolicited},
	"confirmation of nothing":            {commandPing, ">" + subscribedPush, errUnsolicited},
	"confirmation before its turn":       {commandPing + commandSubscribe, ">" + subscribedPush, errUnsolicited},
	"confirmation in turn":               {commandPing + commandSubscribe, "+PONG\r\n>" + subscribedPush, nil},
	"two confirmations of two":           {commandSubscribe + commandSubscribe, strings.Repeat(">"+subscribedPush, 4), nil},
	"a word that is longer":              {"", ">2\r\n+subscribesubscribe\r\n+a\r\n", nil},
	"a word with an end inside":          {"", ">2\r\n$10\r\nsubscribe\r\r\n+a\r\n", nil},
	"a confirmation of one part":         {"", ">1\r\n+subscribe\r\n", nil},
	"in a transaction":                   {commandSubscribe, "+QUEUED\r\n", errUnsolicited},
	"a subscription refused":             {commandSubscribe + commandPing, "-NOPERM no\r\n+PONG\r\n", nil},
	"an array is a reply":                {commandHello3 + commandSubscribe, "+OK\r\n>" + subscribedPush + "*" + messagePush, errUnsolicited},
	"RESP2's subscription":               {commandHello2 + commandSubscribe, "*0\r\n*" + subscribedPush + "*" + messagePush + "*" + subscribedPush, nil},
	"RESP2's pong":                       {commandHello2 + commandSubscribe + commandPing, "*0\r\n*" + subscribedPush + "*2\r\n+pong\r\n+\r\n", nil},
	"RESP2's pong to nothing":            {commandHello2 + commandSubscribe, "*0\r\n*" + subscribedPush + "*2\r\n+pong\r\n+\r\n", errUnsolicited},
	"RESP2's array before, from nothing": {commandHello2, "*0\r\n*" + messagePush, errUnsolicited},
	"moved":                              {commandPing, "-MOVED 1 127.0.0.1:1\r\n", nil},
	"moved to nowhere":                   {commandPing, "-MOVED 1\r\n", errNotReply},
	"ask nobody":                         {commandPing, "!3\r\nASK\r\n", errNotReply},
}

// TestReplyMatcher checks that boundedConn rejects unsolicited replies and accepts messages that the store
// may push.
func TestReplyMatcher(t *testing.T) {
	all := maps.Clone(exchanges)
	maps.Copy(all, sentinelExchanges)
	for name, test := range all {
		c := newBoundedConn(fromStore{sent: strings.NewReader(test.comes)})
		if _, err := c.commands.parse([]byte(test.sent)); err != nil {
			t.Fatal(name, err)
		}
		passes := len(test.comes)
		if test.want != nil {
			passes--
		}
		buffer := make([]byte, 1+len(test.comes))
		n, err := c.Read(buffer)
		if !errors.Is(err, test.want) || n != passes {
			t.Errorf("%s: %d bytes of %d pass, %v; want %v", name, n, len(test.comes), err, test.want)
		}
	}
	if _, err := newBoundedConn(nil).Write([]byte("*1\r\n$11\r\nUNSUBSCRIBE\r\n")); !errors.Is(err, errUnsubscribe) {
		t.Error(err)
	}
}

var unsolicitedReplies = []string{
	"+OK\r\n+OK\r\n+OK\r\n", ">2\r\n+a\r\n+b\r\n", ">0\r\n", ">-1\r\n", ">1\r\n:1\r\n", ">2\r\n:1\r\n:2\r\n",
	">" + messagePush, ">" + subscribedPush, ">1\r\n$9\r\nsubscribe\r\n", ">" + unsubscribedPush, ">1\r\n+unsubscribe\r\n", ">2\r\n+unsubscribe\r\n_\r\n",
	">2\r\n+invalidate\r\n*1\r\n+a\r\n", ">2\r\n+invalidate\r\n_\r\n", ">1\r\n+message\r\n", ">2\r\n+message\r\n+a\r\n", ">1\r\n+pmessage\r\n",
	"*" + messagePush, "*" + subscribedPush, "*" + unsubscribedPush, "*2\r\n+pong\r\n+\r\n", "*0\r\n", "*-1\r\n", "_\r\n", "%1\r\n+a\r\n+b\r\n", "%0\r\n", "~1\r\n+a\r\n",
	":1\r\n", ",1\r\n", "#t\r\n", "#x\r\n", "$-1\r\n", "-\r\n", "+\r\n", "!0\r\n\r\n", "=0\r\n\r\n", "=3\r\nabc\r\n", "(\r\n", ",\r\n", ":\r\n",
	"-ERR no\r\n-ERR no\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-MOVED\r\n", "-ASK\r\n", "-ASK 1\r\n", "+QUEUED\r\n", "-QUEUED\r\n", "+PONG\r\n",
	"|1\r\n+a\r\n+b\r\n>2\r\n+a\r\n+b\r\n", "*1\r\n>1\r\n+a\r\n", "|0\r\n+OK\r\n", "*1\r\n*0\r\n", "*1\r\n+a\r\n", "*3\r\n+a\r\n+b\r\n+c\r\n", "%?\r\n+a\r\n.\r\n",
	"%1\r\n+version\r\n*0\r\n", "%1\r\n+version\r\n_\r\n", "%1\r\n*0\r\n*0\r\n", "%1\r\n+proto\r\n+x\r\n", "%1\r\n+proto\r\n:3\r\n", "-ERR unknown command 'HELLO'\r\n",
}

// hostileStore answers each read with the next element of says, and finally closes the connection.
// It serves one client.
func hostileStore(says []string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	var dialled atomic.Bool
	return func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		if dialled.Swap(true) {
			return nil, errUnreached
		}
		edge, store := net.Pipe()
		go func() {
			defer store.Close()
			heard := make([]byte, 4096)
			for _, one := range says {
				if _, err := store.Read(heard); err != nil {
					return
				}
				if _, err := store.Write([]byte(one)); err != nil {
					return
				}
			}
		}()
		return newBoundedConn(edge), nil
	}
}

// connectToStore connects a client to a store that sends the given output. If the client panicked,
// its goroutine would end the process, so the test passes if the process survives.
func connectToStore(says ...string) {
	options := clientOptions(&StoreOptions{Addresses: []string{"store:1"}})
	options.DialCtxFn, options.Dialer.Timeout = hostileStore(says), 20*time.Millisecond
	client, err := valkey.NewClient(options)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_ = client.Do(ctx, client.B().Ping().Build())
	_ = client.DoMulti(ctx, client.B().Time().Build(), client.B().Ping().Build())
	own, _ := client.Dedicate()
	_ = own.Receive(ctx, own.B().Subscribe().Channel("a").Build(), func(valkey.PubSubMessage) {})
	own.Close()
	_, _ = client.Do(ctx, client.B().Xread().Count(1).Streams().Key("a").Id("0").Build()).AsXRead()
}

const (
	helloReply      = "%2\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n"
	helloReplyRESP2 = "-ERR unknown command 'HELLO'\r\n+OK\r\n+OK\r\n"
)

// TestHostileStore checks that the process survives arbitrary output from a store at any time.
func TestHostileStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		says := rapid.SliceOfN(rapid.SampledFrom(append(unsolicitedReplies, helloReply, helloReplyRESP2)), 0, 6).Draw(t, "says")
		connectToStore(append([]string{rapid.SampledFrom([]string{helloReply, helloReply, helloReplyRESP2, ""}).Draw(t, "first")}, says...)...)
	})
}

func FuzzHostileStore(f *testing.F) {
	for _, one := range unsolicitedReplies {
		f.Add(helloReply, "+PONG\r\n", one, one)
		f.Add(helloReplyRESP2, helloReplyRESP2, one, one)
	}
	f.Fuzz(func(_ *testing.T, first, second, third, fourth string) { connectToStore(first, second, third, fourth) })
}

// TestUnsolicitedReplies checks that an unsolicited message from the store causes at most an error. The
// edge must use the store again once it answers correctly.
func TestUnsolicitedReplies(t *testing.T) {
	for _, command := range []string{"", "HELLO", "CLIENT", "EVALSHA", "PING"} {
		store := miniredis.RunT(t)
		for _, reply := range unsolicitedReplies {
			surviveReply(t, store, reply, command)
		}
	}
}

// surviveReply makes the store replace its reply to the command to with the given reply. If to is
// empty, the store replaces its next reply to any command. A push is sent in addition to the
// correct reply.
func surviveReply(t *testing.T, store *miniredis.Miniredis, reply, to string) {
	var sends atomic.Bool
	store.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if !sends.Load() || to != "" && command != to {
			return false
		}
		c.WriteRaw(reply)
		return !strings.Contains(reply, ">")
	})
	r := newRemoteStore(StoreOptions{Addresses: []string{store.Addr()}, Prefix: "ps"})
	defer r.Close()
	for _, first := range []bool{true, false} {
		sends.Store(true)
		if !first {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = r.Exchange(ctx, "a", &accountMessage{edge: "one", number: 1})
			cancel()
		}
		_ = beat(t, r)
		sends.Store(false)
		waitReconnect(t, r, reply+" to "+to)
	}
}

func waitReconnect(t *testing.T, r *remoteStore, after string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); beat(t, r) != nil; {
		if time.Now().After(end) {
			t.Fatalf("%q: the edge does not find its store again", after)
		}
	}
}

// TestSkippedReply checks that the edge closes a connection after the store has skipped a reply on
// it. Otherwise, each later command would get the reply to the command before it.
func TestSkippedReply(t *testing.T) {
	store := miniredis.RunT(t)
	r := startRemote(t, store.Addr())
	if err := beat(t, r); err != nil {
		t.Fatal(err)
	}
	var leavesOut atomic.Bool
	store.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		return command == "EVALSHA" && leavesOut.CompareAndSwap(true, false)
	})
	leavesOut.Store(true)
	if err := beat(t, r); err == nil {
		t.Fatal("an answer that was not sent")
	}
	waitReconnect(t, r, "a reply that was left out")
}
