package fleet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"
)

// sentinelExchanges are exchanges with sentinels. The client reads words in their messages and
// elements in their replies without checking how many there are.
var sentinelExchanges = map[string]exchange{
	"a primary":                       {commandMaster, "*2\r\n+127.0.0.1\r\n+1\r\n", nil},
	"no primary":                      {commandMaster, "*-1\r\n", nil},
	"half a primary":                  {commandMaster, "*1\r\n+127.0.0.1\r\n", errNotReply},
	"the second's half":               {commandPing + commandMaster, "*0\r\n*0\r\n", errNotReply},
	"no role":                         {commandRole, "*0\r\n", errNotReply},
	"a role":                          {commandRole, "~1\r\n+master\r\n", nil},
	"a sentinel of no words":          {"", saysOn + "$9\r\n+sentinel\r\n+\r\n", errNotReply},
	"a sentinel's address":            {"", saysOn + "$9\r\n+sentinel\r\n$18\r\nsentinel b 1.2.3.4\r\n", errNotReply},
	"a sentinel's address and port":   {"", saysOn + "$9\r\n+sentinel\r\n$20\r\nsentinel b 1.2.3.4 5\r\n", nil},
	"a switch without a port":         {"", saysOn + "$14\r\n+switch-master\r\n$11\r\na b c 1.2.3\r\n", errNotReply},
	"a switch":                        {"", saysOn + "$14\r\n+switch-master\r\n$13\r\na b c 1.2.3 4\r\n", nil},
	"a reboot of nothing":             {"", saysOn + "$7\r\n+reboot\r\n+master\r\n", errNotReply},
	"a word on another channel":       {"", saysOn + "+a\r\n+master\r\n", nil},
	"a message that is a list":        {"", saysOn + "$7\r\n+reboot\r\n*1\r\n+a b c d e\r\n", errNotReply},
	"spaces of the channel are none":  {"", saysOn + "$9\r\n+sentinel\r\n$1\r\na\r\n", errNotReply},
	"a word that goes on, of another": {"", saysOn + "$10\r\n+sentinels\r\n$1\r\na\r\n", nil},
}

const (
	commandMaster = "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$1\r\na\r\n"
	commandRole   = "*1\r\n$4\r\nROLE\r\n"
	saysOn        = ">3\r\n+message\r\n"
)

// hostileSentinel answers correctly, except that some parts of the answer can be replaced.
type hostileSentinel struct{ master, role, says string }

func (h hostileSentinel) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	edge, store := net.Pipe()
	go func() {
		defer store.Close()
		heard := make([]byte, 4096)
		for {
			n, err := store.Read(heard)
			if err != nil {
				return
			}
			// Each command in the input starts with *N $N NAME.
			answer := ""
			for _, command := range strings.Split(string(heard[:n]), "*")[1:] {
				switch {
				case strings.Contains(command, "HELLO"):
					answer += "%2\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n"
				case strings.Contains(command, "GET-MASTER"):
					answer += h.master
				case strings.Contains(command, "SENTINELS"):
					answer += "*0\r\n"
				case strings.Contains(command, "ROLE"):
					answer += h.role
				case strings.Contains(command, "UNSUBSCRIBE"):
				case strings.Contains(command, "SUBSCRIBE"):
					answer += strings.Repeat(">"+subscribedPush, 6) + h.says
				default:
					answer += "+OK\r\n"
				}
			}
			if _, err := store.Write([]byte(answer)); err != nil {
				return
			}
		}
	}()
	return newBoundedConn(edge), nil
}

// TestHostileSentinel checks that the process survives any answer from a sentinel, or from the
// store that the sentinel names.
func TestHostileSentinel(t *testing.T) {
	const good = "*2\r\n+127.0.0.1\r\n+1\r\n"
	message := func(channel, text string) string {
		return fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n+%s\r\n", len(channel), channel, text)
	}
	says := []string{""}
	for _, channel := range []string{"+sentinel", "+switch-master", "+reboot", "+slave", "+sdown", "-sdown"} {
		for _, text := range []string{"", "a", "master", "master a", "master a b", "a b c d", "a 1.2.3.4 5 1.2.3.4 5", "slave a b", "   "} {
			says = append(says, message(channel, text))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		h := hostileSentinel{
			master: rapid.SampledFrom([]string{good, good, "*0\r\n", "*1\r\n+a\r\n", "*-1\r\n", "+OK\r\n", "~1\r\n+a\r\n", "%0\r\n", "*2\r\n*0\r\n_\r\n"}).Draw(t, "primary"),
			role:   rapid.SampledFrom([]string{"*1\r\n+master\r\n", "*1\r\n+master\r\n", "*0\r\n", "~0\r\n", "*-1\r\n", "*1\r\n*0\r\n", ":1\r\n"}).Draw(t, "role"),
			says:   strings.Join(rapid.SliceOfN(rapid.SampledFrom(says), 0, 3).Draw(t, "says"), ""),
		}
		options := clientOptions(&StoreOptions{Addresses: []string{"sentinel:1"}, SentinelMaster: "a"})
		options.DialCtxFn = h.dial
		client, err := valkey.NewClient(options)
		if err != nil {
			return
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		_ = client.Do(ctx, client.B().Ping().Build())
	})
}
