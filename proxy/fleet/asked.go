package fleet

import (
	"errors"
	"strings"
	"sync"
)

var (
	errUnasked     = errors.New("the store sent an unsolicited reply")
	errUnsubscribe = errors.New("a connection that has subscribed is closed, not used again")
)

// asked counts the commands and replies on one connection, so that boundedConn can detect an
// unsolicited reply. Like the client, it expects one reply to each command. Messages that the store
// pushes are not replies, except the first confirmation of a subscription. In RESP3, they have the
// type push. In RESP2, they are arrays that arrive after a subscription.
type asked struct {
	mu             sync.Mutex
	sent, answered uint64         // number of commands, and number of replies
	subscriptions  []subscription // subscriptions that have not been confirmed yet
	further        int
	arrays         []arrayReply // commands whose array reply has not arrived yet
	// resp3: HELLO 3 was sent; resp2: a subscription was made in RESP2.
	resp3, resp2 bool
}

type subscription struct {
	number   uint64
	channels int
}

// arrayReply is a command whose reply is an array. The client reads the first elements of the array
// without checking its length.
type arrayReply struct {
	number uint64
	least  int
}

func (a *asked) ask(f *replyForm) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch name := string(f.word[:f.letters]); {
	case name == "HELLO3":
		a.resp3 = true
	case strings.HasPrefix(name, "SUBSCRIBE"), strings.HasPrefix(name, "PSUBSCRIBE"),
		strings.HasPrefix(name, "SSUBSCRIBE"):
		a.subscriptions = append(a.subscriptions, subscription{a.sent, f.members - 1})
		a.resp2 = !a.resp3
	case strings.HasPrefix(name, "UNSUBSCRIBE"), strings.HasPrefix(name, "PUNSUBSCRIBE"),
		strings.HasPrefix(name, "SUNSUBSCRIBE"):
		return errUnsubscribe // the store sends multiple replies, in different formats
	case name == "ROLE":
		a.arrays = append(a.arrays, arrayReply{a.sent, 1})
	case name == "SENTINELGET-MASTER-ADDR-BY-NAME":
		a.arrays = append(a.arrays, arrayReply{a.sent, 2})
	}
	a.sent++
	return nil
}

func (a *asked) hear(f *replyForm) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	word := f.member(0)
	// confirms and ends are true if the message confirms a subscription or an unsubscription.
	confirms, ends := false, false
	push := f.top == '>' || a.resp2 && strings.IndexByte("*~%", f.top) >= 0 && f.members > 0 && word != "pong"
	if push && f.members > 1 {
		switch word {
		case "subscribe", "psubscribe", "ssubscribe":
			confirms = true
		case "unsubscribe", "punsubscribe", "sunsubscribe":
			ends = true
		}
	}
	subscribes := len(a.subscriptions) > 0 && a.subscriptions[0].number == a.answered
	switch {
	case push && !confirms && !ends:
		if word == "message" && f.members > 2 && f.spaces < spacesOf(f.member(1)) {
			return errReplyForm
		}
		return nil
	case push && a.further > 0:
		a.further--
		return nil
	case ends:
		return nil
	case a.answered == a.sent, confirms && !subscribes, subscribes && word == "QUEUED":
		return errUnasked
	case isError(f) && f.spaces < 2 && (strings.HasPrefix(word, "MOVED") || strings.HasPrefix(word, "ASK")):
		return errReplyForm // the client reads the third word of such an error
	}
	if len(a.arrays) > 0 && a.arrays[0].number == a.answered {
		if (f.top == '*' || f.top == '~') && f.members < a.arrays[0].least {
			return errReplyForm
		}
		a.arrays = a.arrays[1:]
	}
	if subscribes {
		if confirms {
			a.further = a.subscriptions[0].channels - 1
		}
		a.subscriptions = a.subscriptions[1:]
	}
	a.answered++
	return nil
}

// spacesOf returns the minimum number of spaces that the client expects in a sentinel's message on
// the given channel.
func spacesOf(channel string) int {
	switch channel {
	case "+sentinel", "+reboot":
		return 3
	case "+switch-master":
		return 4
	}
	return 0
}

func isError(f *replyForm) bool { return f.top == '-' || f.top == '!' }
