package fleet

import (
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"pgregory.net/rapid"
)

type fromStore struct {
	net.Conn
	sent io.Reader
}

func (c fromStore) Read(p []byte) (int, error) { return c.sent.Read(p) }

// bounded returns the part of a store's output that a boundedConn accepts. It pretends that enough
// commands were sent to allow any number of replies.
func bounded(sent io.Reader) (string, error) {
	c := newBoundedConn(fromStore{sent: sent})
	c.matcher.commandCount = math.MaxUint64
	passed, err := io.ReadAll(c)
	return string(passed), err
}

var goodReplies = []string{
	"+OK\r\n", "+a\rb\r\n", "-ERR no\r\n", ":-12\r\n", ",1.5\r\n", "(1234567890123456789012345678901\r\n", "#t\r\n", "_\r\n",
	"$0\r\n\r\n", "$00\r\n\r\n", "$5\r\na\r\nb$\r\n", "=7\r\ntxt:abc\r\n", "!3\r\nERR\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "%0\r\n",
	"*2\r\n$-1\r\n*-1\r\n", "%1\r\n+a\r\n*1\r\n:1\r\n", "~1\r\n#f\r\n", ">2\r\n+a\r\n+b\r\n",
	"|1\r\n+ttl\r\n:1\r\n$1\r\na\r\n", "*2\r\n|0\r\n:1\r\n|1\r\n+a\r\n*0\r\n:2\r\n",
	"$?\r\n;4\r\nabcd\r\n;1\r\n;\r\n;0\r\n", "*?\r\n+a\r\n*1\r\n%?\r\n+a\r\n:1\r\n.\r\n.\r\n", "|?\r\n+a\r\n:1\r\n.\r\n+b\r\n",
	strings.Repeat("*1\r\n", maxNesting) + ":1\r\n",
}

var largestReplies = []string{
	"+" + strings.Repeat("a", maxLineBytes-1) + "\r\n",
	"$8388608\r\n" + strings.Repeat("a", maxStringBytes) + "\r\n",
	"*262144\r\n" + strings.Repeat(":1\r\n", maxElements),
	"%131072\r\n" + strings.Repeat(":1\r\n", maxElements),
}

// TestGoodReplies checks that valid replies are accepted completely, and that each reply is parsed
// independently of the previous one.
func TestGoodReplies(t *testing.T) {
	for _, reply := range append(largestReplies, goodReplies...) {
		sent := reply + reply + "*262144\r\n"
		if passed, err := bounded(strings.NewReader(sent)); err != nil || passed != sent {
			t.Errorf("%.60q: %d bytes of %d, %v", reply, len(passed), len(sent), err)
		}
	}
}

var badReplies = []struct {
	passes, rest string
	want         error
}{
	{"*214748", "3647\r\n", errTooManyReplyElements},
	{"*26214", "5\r\n", errTooManyReplyElements},
	{"%131073\r", "\n", errTooManyReplyElements},
	{"|131073\r", "\n", errTooManyReplyElements},
	{"*2\r\n*262143\r", "\n", errTooManyReplyElements},
	{"*?\r\n" + strings.Repeat("_\r\n", maxElements) + "_\r", "\n", errTooManyReplyElements},
	{"$2147483", "647\r\n", errReplyStringTooLong},
	{"!838860", "9\r\n", errReplyStringTooLong},
	{"$?\r\n;838860", "9\r\n", errReplyStringTooLong},
	{strings.Repeat("*1\r\n", maxNesting) + "*1\r", "\n", errReplyTooDeep},
	{"+" + strings.Repeat("a", maxLineBytes), "a\r\n", errReplyLineTooLong},
	{"$-2\r", "\n", errNotReply},
	{"%-1\r", "\n", errNotReply},
	{"|-1\r", "\n", errNotReply},
	{"$?\r\n;-1\r", "\n", errNotReply},
	{"$?\r\n;?\r", "\n", errNotReply},
	{"$?\r\n", "$1\r\na\r\n", errNotReply},
	{"$", "\r\n", errNotReply},
	{"$-", "\r\n", errNotReply},
	{"$1", "a\r\n", errNotReply},
	{"*?", "1\r\n", errNotReply},
	{"$1\r", "a", errNotReply},
	{"$1\r\na", "bc", errNotReply},
	{"$1\r\na\r", "b", errNotReply},
	{"+a", "\n", errNotReply},
	{"*1\r\n", ".\r\n", errNotReply},
	{"", ".\r\n", errNotReply},
	{"", ";0\r\n", errNotReply},
	{"%?\r\n+a\r\n.\r", "\n", errNotReply},
	{"", "HTTP/1.1 400 Bad Request\r\n", errNotReply},
	{"$0000000000000000000", "0\r\n", errNotReply},
}

// TestBadReplies checks that the bytes before an invalid byte are accepted, and that the bytes
// after it are not.
func TestBadReplies(t *testing.T) {
	for _, test := range badReplies {
		for _, before := range []string{"", "+OK\r\n%1\r\n+a\r\n:1\r\n"} {
			passed, err := bounded(strings.NewReader(before + test.passes + test.rest))
			if !errors.Is(err, test.want) || passed != before+test.passes {
				t.Errorf("%.40q: %.40q, %v; want %v", test.passes+test.rest, passed, err, test.want)
			}
		}
	}
}

// TestLongReply checks that the total length of the strings in a reply is limited.
func TestLongReply(t *testing.T) {
	one := "$8388608\r\n" + strings.Repeat("a", maxStringBytes) + "\r\n"
	sent := "*?\r\n" + strings.Repeat(one, maxReplyBytes/maxStringBytes)
	passed, err := bounded(strings.NewReader(sent))
	if want := len(sent) - len(one) + len("$8388608\r"); !errors.Is(err, errReplyTooLong) || len(passed) != want {
		t.Errorf("%d bytes, %v; want %d", len(passed), err, want)
	}
}

// TestSplitReplies checks that the same bytes are accepted no matter how they are split across
// reads, and that parsing does not allocate.
func TestSplitReplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replies := slices.Clone(goodReplies)
		for _, test := range badReplies[6:] {
			replies = append(replies, test.passes+test.rest)
		}
		sent := strings.Join(rapid.SliceOfN(rapid.SampledFrom(replies), 1, 5).Draw(t, "replies"), "")
		want, wantErr := bounded(strings.NewReader(sent))
		got, err := bounded(iotest.OneByteReader(strings.NewReader(sent)))
		if got != want || !errors.Is(err, wantErr) {
			t.Fatalf("byte by byte: %.40q, %v; want %.40q, %v", got, err, want, wantErr)
		}
		var parts []io.Reader
		for at := 0; at < len(sent); {
			n := rapid.IntRange(1, min(40, len(sent)-at)).Draw(t, "bytes")
			if at > 200 {
				n = len(sent) - at
			}
			parts = append(parts, strings.NewReader(sent[at:at+n]))
			at += n
		}
		if got, err = bounded(io.MultiReader(parts...)); got != want || !errors.Is(err, wantErr) {
			t.Fatalf("split: %.40q, %v; want %.40q, %v", got, err, want, wantErr)
		}
	})
	c := newBoundedConn(nil)
	c.matcher.commandCount = math.MaxUint64
	reply := []byte(strings.Join(goodReplies, ""))
	if n := testing.AllocsPerRun(10, func() { _, _ = c.replies.parse(reply) }); n != 0 {
		t.Errorf("scan allocates %v times, want 0", n)
	}
}

// FuzzReplies checks that the output is a prefix of the input. Without an error, it must be the
// complete input.
func FuzzReplies(f *testing.F) {
	for _, reply := range goodReplies {
		f.Add(reply)
	}
	for _, test := range badReplies[6:] {
		f.Add(test.passes + test.rest)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		passed, err := bounded(strings.NewReader(sent))
		if !strings.HasPrefix(sent, passed) || (err == nil) != (passed == sent) {
			t.Fatalf("bounded(%q) = %q, %v; want a prefix, and all of it without an error", sent, passed, err)
		}
		again, bad := bounded(iotest.OneByteReader(strings.NewReader(sent)))
		if again != passed || !errors.Is(bad, err) {
			t.Fatalf("%q: %q, %v; byte by byte %q, %v", sent, passed, err, again, bad)
		}
	})
}

// TestHugeReplies checks that a reply that announces too much data causes an error but no
// allocation. The edge must use the store again once it answers correctly.
func TestHugeReplies(t *testing.T) {
	for _, reply := range []string{"*2147483647\r\n", "$2147483647\r\nabc", "%-1\r\n"} {
		store := miniredis.RunT(t)
		var sends atomic.Pointer[string]
		store.Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
			s := sends.Load()
			if s != nil {
				c.WriteRaw(*s)
			}
			return s != nil
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := startRemote(t, store.Addr())
		for _, stage := range []string{"first", "later"} {
			sends.Store(&reply)
			if err := beat(t, r); err == nil {
				t.Fatalf("%q, %s: no error", reply, stage)
			}
			if _, err := r.Exchange(t.Context(), "a", &accountMessage{edge: "one", number: 1}); err == nil {
				t.Fatalf("%q, %s: a message has an answer", reply, stage)
			}
			sends.Store(nil)
			for end := time.Now().Add(20 * time.Second); beat(t, r) != nil; {
				if time.Now().After(end) {
					t.Fatalf("%q, %s: the edge does not find its store again", reply, stage)
				}
			}
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 64 {
			t.Errorf("%q: %d MiB were allocated", reply, n)
		}
	}
}
