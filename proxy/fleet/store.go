package fleet

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"
)

// store keeps the accounts. Any goroutine may call its methods.
type store interface {
	// Exchange sends a message to an account and returns its answer.
	Exchange(ctx context.Context, id string, m *message) (reply, error)
	// Available reports whether waiting for a message makes sense.
	Available() bool
	// Missed counts a call that has waited in vain for a message that another call sent.
	Missed()
	// Misses returns the number of consecutive failures: messages without an answer, and calls that
	// waited in vain.
	Misses() int
	// Heartbeat announces this edge to the store. If the error is errLate, it also returns an answer.
	Heartbeat(ctx context.Context, edge, said string) (alive, error)
	// Eviction returns the store's maxmemory-policy, or "" if the user has no right to read it.
	Eviction(ctx context.Context) string
	Close()
}

// alive is the answer to a heartbeat.
type alive struct {
	said  []string // entries of all living edges
	known bool     // the store knew this edge
	clock uint64   // the store's clock, in millionths of a second
}

// StoreOptions describe how to reach the store.
type StoreOptions struct {
	Addresses      []string // addresses of the store, or of the sentinels
	SentinelMaster string
	Cluster        bool
	User, Password string

	SentinelUser, SentinelPassword string

	TLS    *tls.Config // nil: connections without TLS
	Prefix string      // prefix of the store's keys
}

// clientOptions returns the client's options. They disable its cache and its retries (the edge
// decides which messages are repeated), keep buffers small, detect a silent peer within a second,
// and limit the size of replies.
func clientOptions(o *StoreOptions) valkey.ClientOption {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second}
	return valkey.ClientOption{
		InitAddress: o.Addresses, Username: o.User, Password: o.Password, TLSConfig: o.TLS,
		Sentinel: valkey.SentinelOption{
			MasterSet: o.SentinelMaster, Username: o.SentinelUser, Password: o.SentinelPassword, TLSConfig: o.TLS,
			ClientName: "penstock", Dialer: dialer,
		},
		ForceSingleClient: !o.Cluster && o.SentinelMaster == "",
		DisableCache:      true, DisableRetry: true, AlwaysPipelining: true, PipelineMultiplex: -1,
		ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
		Dialer:           dialer,
		DialCtxFn:        dialBounded,
		ConnWriteTimeout: dialTimeout,
		ClientName:       "penstock",
	}
}

const dialTimeout = 500 * time.Millisecond

//go:embed members.lua
var membersSource string

var membersScript = valkey.NewLuaScript(membersSource)

// failuresToOpen is how many consecutive failures open the breaker. While it is open, no call waits
// for the store, until the store answers a heartbeat. The first heartbeat is sent at once.
const failuresToOpen = 3

// remote is the store behind a client, with a breaker.
type remote struct {
	options StoreOptions
	client  atomic.Pointer[valkey.Client] // nil: the store has not been reached yet, or is lost
	// consecutive failures; the breaker is open from failuresToOpen onwards
	failures atomic.Int32
	refused  refusals
	opened   func() // called when the breaker opens
	// duration from which an answer is late, longer than any call waits; 0: unknown
	late time.Duration

	// Only the goroutine that sends heartbeats uses the fields below.
	failed      int  // consecutive failed heartbeats
	redialAfter int  // the number of failed heartbeats after which the client is replaced
	primary     bool // the store was found to be a primary since the last failure

	began atomic.Uint64 // the base of message numbers; 0: no heartbeat yet
}

var errUnreached = errors.New("the store has not been reached yet")

func newRemote(o StoreOptions) *remote {
	r := &remote{options: o, opened: func() {}, refused: refusals{log: zap.NewNop(), prefix: o.Prefix}, redialAfter: redialFirst}
	r.failures.Store(failuresToOpen)
	return r
}

// Available reports whether the breaker is closed.
func (r *remote) Available() bool { return r.failures.Load() < failuresToOpen }

// connect opens the client if there is none. Only the goroutine of the heartbeats calls connect.
func (r *remote) connect() error {
	if r.client.Load() != nil {
		return nil
	}
	c, err := Dial(r.options)
	if err != nil {
		return err
	}
	r.client.Store(&c)
	return nil
}

// Dial connects to a store.
func Dial(o StoreOptions) (valkey.Client, error) { return valkey.NewClient(clientOptions(&o)) }

// Exchange sends a message to an account. If the connection ends, Exchange sends the message once
// more over another connection. It makes no difference whether the store has received the first
// message. Messages are numbered from the store's time at the first heartbeat of this process, in
// millionths of a second. An earlier process with the same name ended before that heartbeat, so all
// its numbers are lower.
func (r *remote) Exchange(ctx context.Context, id string, m *message) (reply, error) {
	c, first, began := r.client.Load(), r.began.Load(), time.Now()
	if c == nil || first == 0 {
		return reply{}, errUnreached
	}
	key := []string{r.options.Prefix + ":{" + id + "}"}
	answer, err := parseReply(script.Exec(ctx, *c, key, m.args(first, 0)))
	// a node reset the connection, or it was idle: the store may be healthy
	if isReset(err) && ctx.Err() == nil {
		answer, err = parseReply(script.Exec(ctx, *c, key, m.args(first, 1)))
	}
	r.countOutcome(id, began, err)
	if errors.Is(err, errOvertaken) { // the store's clock was set back before this process started
		r.began.CompareAndSwap(first, max(first, answer.later+unheardMost))
	}
	return answer, err
}

// isReset reports whether a connection ended while a message was in flight. The client opens
// another connection for the next message.
func isReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unheardMost is how many messages of a process may still reach the store after the process has
// ended.
const unheardMost = 2000

// countOutcome counts the outcome of a command on a key. An overtaken message counts as answered,
// because it has reached the store. A refusal concerns only its key. An answer that took longer
// than the calls' timeout does not show that calls would get an answer in time.
func (r *remote) countOutcome(key string, began time.Time, err error) {
	if code := refusalOf(err); code != "" {
		r.refused.tell(key, code, err)
		return
	}
	if err != nil || !r.isLate(began) {
		r.outcome(err)
	}
}

// isLate reports whether an answer that is received now is too late for calls.
func (r *remote) isLate(began time.Time) bool { return r.late > 0 && time.Since(began) > r.late }

// outcome counts an outcome for the breaker. Only a heartbeat closes the breaker.
func (r *remote) outcome(err error) {
	if err == nil || errors.Is(err, errOvertaken) {
		if r.Available() {
			r.failures.Store(0)
		}
		return
	}
	if r.failures.Load() < failuresToOpen && r.failures.Add(1) == failuresToOpen {
		r.opened()
	}
}

func (r *remote) Missed() { r.outcome(context.DeadlineExceeded) }

func (r *remote) Misses() int { return int(r.failures.Load()) }

// Heartbeat announces this edge to the store. If the answer is in time, Heartbeat closes the
// breaker. If it is late, Heartbeat returns errLate with the answer.
func (r *remote) Heartbeat(ctx context.Context, edge, said string) (a alive, err error) {
	if err := r.connect(); err != nil {
		return alive{}, err
	}
	began := time.Now()
	if err = r.refuseReplica(ctx); err == nil {
		a, err = r.showSelf(ctx, edge, said)
	}
	// repeated, because the script may have had to be sent with the first heartbeat
	if err == nil && r.isLate(began) {
		began = time.Now()
		if _, again := r.showSelf(ctx, edge, said); again != nil || r.isLate(began) {
			err = errLate
		}
	}
	if err == nil {
		r.failures.Store(0)
	}
	r.outcome(err)
	r.redial(err)
	return a, err
}

// errLate is the error for a heartbeat whose answer took longer than the calls' timeout.
var errLate = errors.New("it takes longer to answer than fleet.store.timeout")

// showSelf sends this edge's entry with a heartbeat.
func (r *remote) showSelf(ctx context.Context, edge, said string) (alive, error) {
	result := membersScript.Exec(ctx, *r.client.Load(), []string{r.options.Prefix + ":{members}"},
		[]string{edge, strconv.FormatInt(lease.Milliseconds(), 10), said})
	if err := result.Error(); err != nil {
		return alive{}, err
	}
	a, err := parseMembers(result)
	if err != nil {
		return alive{}, errOther // the reply may belong to another command
	}
	r.began.CompareAndSwap(0, a.clock) // set before the breaker closes
	return a, nil
}

func parseMembers(result valkey.ValkeyResult) (a alive, err error) {
	all, err := result.AsStrSlice()
	if err == nil && len(all) < 2 {
		err = errOther
	}
	if err == nil {
		a.said, a.known = all[2:], all[0] == "known"
		a.clock, err = strconv.ParseUint(all[1], 10, 64)
	}
	return a, err
}

var errOther = errors.New("the store's answer has an unexpected form")

// refuseReplica asks the store for its role, at first and after each failure. A replica that
// accepts writes would lose them at the next synchronization with its primary.
func (r *remote) refuseReplica(ctx context.Context) error {
	// cluster and sentinel clients find primaries themselves
	if r.primary || r.options.Cluster || r.options.SentinelMaster != "" {
		return nil
	}
	c := *r.client.Load()
	answer, err := c.Do(ctx, c.B().Role().Build()).ToArray()
	// a user may lack the right to ROLE, and some proxies lack the command
	if err != nil && refusalOf(err) == "" {
		return err
	}
	if len(answer) > 0 {
		if role, err := answer[0].ToString(); err == nil && role == "slave" {
			return errReplica
		}
	}
	r.primary = true
	return nil
}

var errReplica = errors.New("READONLY it is a replica")

// The numbers of consecutive failed heartbeats after which the client is replaced: first
// redialFirst, and then twice as many each time, up to redialMost.
const (
	redialFirst = 3
	redialMost  = 30
)

// redial replaces the client after a number of consecutive failed heartbeats. The client's
// connection may still lead to a store that has become a replica or lacks its primary, while the
// address already leads to another store. Moreover, once a store has skipped a reply, each later
// command on that connection gets the previous command's reply.
func (r *remote) redial(err error) {
	if err == nil || errors.Is(err, errLate) {
		r.failed, r.redialAfter = 0, redialFirst
		return
	}
	r.primary = false
	if r.failed++; r.failed < r.redialAfter {
		return
	}
	r.failed, r.redialAfter = 0, min(2*r.redialAfter, redialMost)
	(*r.client.Swap(nil)).Close()
}

// Eviction returns what the store does when its memory is full.
func (r *remote) Eviction(ctx context.Context) string {
	c := *r.client.Load()
	policy, err := c.Do(ctx, c.B().ConfigGet().Parameter("maxmemory-policy").Build()).AsStrMap()
	if err != nil { // most users of a store may not read this
		return ""
	}
	return policy["maxmemory-policy"]
}

func (r *remote) Close() {
	if c := r.client.Load(); c != nil {
		(*c).Close()
	}
}
