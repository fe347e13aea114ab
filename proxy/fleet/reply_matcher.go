package fleet

import (
	"errors"
	"strings"
	"sync"
)

var (
	errUnsolicited = errors.New("the store sent an unsolicited reply")
	errUnsubscribe = errors.New("a connection that has subscribed is closed, not used again")
)

// replyMatcher counts the commands and replies on one connection, so that boundedConn can detect an
// unsolicited reply. Like the client, it expects one reply to each command. Messages that the store
// pushes are not replies, except the first confirmation of a subscription. In RESP3, they have the
// type push. In RESP2, they are arrays that arrive after a subscription.
type replyMatcher struct {
	mu                       sync.Mutex
	commandCount, replyCount uint64                // commands sent, replies received
	subscriptions            []pendingSubscription // subscriptions that have not been confirmed yet
	pendingChannels          int
	arrays                   []pendingArrayReply // commands whose array reply has not arrived yet
	// sentHello3: HELLO 3 was sent; subscribedInRESP2: a subscription was made in RESP2.
	sentHello3, subscribedInRESP2 bool
}

type pendingSubscription struct {
	commandNumber uint64
	channels      int
}

// pendingArrayReply is a command whose reply is an array. The client reads the first elements of
// the array without checking its length.
type pendingArrayReply struct {
	commandNumber uint64
	minElements   int
}

func (a *replyMatcher) expectReplies(f *replyParser) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch name := string(f.prefix[:f.prefixLen]); {
	case name == "HELLO3":
		a.sentHello3 = true
	case strings.HasPrefix(name, "SUBSCRIBE"), strings.HasPrefix(name, "PSUBSCRIBE"),
		strings.HasPrefix(name, "SSUBSCRIBE"):
		a.subscriptions = append(a.subscriptions, pendingSubscription{a.commandCount, f.memberCount - 1})
		a.subscribedInRESP2 = !a.sentHello3
	case strings.HasPrefix(name, "UNSUBSCRIBE"), strings.HasPrefix(name, "PUNSUBSCRIBE"),
		strings.HasPrefix(name, "SUNSUBSCRIBE"):
		return errUnsubscribe // the store sends multiple replies, in different formats
	case name == "ROLE":
		a.arrays = append(a.arrays, pendingArrayReply{a.commandCount, 1})
	case name == "SENTINELGET-MASTER-ADDR-BY-NAME":
		a.arrays = append(a.arrays, pendingArrayReply{a.commandCount, 2})
	}
	a.commandCount++
	return nil
}

func (a *replyMatcher) countReply(f *replyParser) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	word := f.memberPrefix(0)
	// confirms: the message confirms a subscription; ends: it confirms an unsubscription.
	confirms, ends := false, false
	push := f.topType == '>' || a.subscribedInRESP2 && strings.IndexByte("*~%", f.topType) >= 0 && f.memberCount > 0 && word != "pong"
	if push && f.memberCount > 1 {
		switch word {
		case "subscribe", "psubscribe", "ssubscribe":
			confirms = true
		case "unsubscribe", "punsubscribe", "sunsubscribe":
			ends = true
		}
	}
	subscribes := len(a.subscriptions) > 0 && a.subscriptions[0].commandNumber == a.replyCount
	switch {
	case push && !confirms && !ends:
		if word == "message" && f.memberCount > 2 && f.spaceCount < minMessageSpaces(f.memberPrefix(1)) {
			return errNotReply
		}
		return nil
	case push && a.pendingChannels > 0:
		a.pendingChannels--
		return nil
	case ends:
		return nil
	case a.replyCount == a.commandCount, confirms && !subscribes, subscribes && word == "QUEUED":
		return errUnsolicited
	case isErrorReply(f) && f.spaceCount < 2 && (strings.HasPrefix(word, "MOVED") || strings.HasPrefix(word, "ASK")):
		return errNotReply // the client reads the third word of such an error
	}
	if len(a.arrays) > 0 && a.arrays[0].commandNumber == a.replyCount {
		if (f.topType == '*' || f.topType == '~') && f.memberCount < a.arrays[0].minElements {
			return errNotReply
		}
		a.arrays = a.arrays[1:]
	}
	if subscribes {
		if confirms {
			a.pendingChannels = a.subscriptions[0].channels - 1
		}
		a.subscriptions = a.subscriptions[1:]
	}
	a.replyCount++
	return nil
}

// minMessageSpaces returns the minimum number of spaces that the client expects in a sentinel's
// message on the given channel.
func minMessageSpaces(channel string) int {
	switch channel {
	case "+sentinel", "+reboot":
		return 3
	case "+switch-master":
		return 4
	}
	return 0
}

func isErrorReply(f *replyParser) bool { return f.topType == '-' || f.topType == '!' }
