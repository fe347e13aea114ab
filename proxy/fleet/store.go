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

// storeClient manages accounts and members. Its methods may be called by multiple goroutines.
type storeClient interface {
	// Exchange sends a message about an account, and returns the answer.
	Exchange(ctx context.Context, id string, m *accountMessage) (accountReply, error)
	// Available reports whether the breaker is closed.
	Available() bool
	// CountMissed counts a call that waited for another call's message without success.
	CountMissed()
	// ConsecutiveFailures returns the number of consecutive failures. A failure is an unanswered
	// message, or a call that waited without success.
	ConsecutiveFailures() int
	// Heartbeat announces this edge. If the error is errLateAnswer, it still returns the answer.
	Heartbeat(ctx context.Context, edge, said string) (heartbeatReply, error)
	// EvictionPolicy returns the store's maxmemory-policy. If the user may not read it,
	// EvictionPolicy returns "".
	EvictionPolicy(ctx context.Context) string
	Close()
}

type heartbeatReply struct {
	entries     []string
	edgeKnown   bool
	storeMicros uint64 // store's clock in microseconds
	birth       string // differs after the store has lost its data
}

// StoreOptions configure the connection to the store.
type StoreOptions struct {
	Addresses      []string // addresses of the store or of the sentinels
	SentinelMaster string
	Cluster        bool
	User, Password string

	SentinelUser, SentinelPassword string

	TLS    *tls.Config // nil for a connection without TLS
	Prefix string
}

// clientOptions returns the options for the client. They disable the client's cache and retries,
// because the edge decides which messages to repeat. They also set small buffers, let the client
// detect a silent peer within a second, and limit the size of replies.
func clientOptions(o *StoreOptions) valkey.ClientOption {
	dialer := net.Dialer{Timeout: storeDialTimeout, KeepAlive: time.Second}
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
		ConnWriteTimeout: storeDialTimeout,
		ClientName:       "penstock",
	}
}

const (
	storeDialTimeout = 500 * time.Millisecond
	commandTimeout   = 10 * time.Second // see Dial
)

//go:embed members.lua
var membersSource string

var membersScript = valkey.NewLuaScript(membersSource)

// failuresToOpen is the number of consecutive failures that opens the breaker.
const failuresToOpen = 3

type remoteStore struct {
	options       StoreOptions
	client        atomic.Pointer[valkey.Client] // nil if no client is open
	failures      atomic.Int32
	refusalLog    refusalLog
	onBreakerOpen func() // called when the breaker opens
	// lateAfter is the duration after which an answer is too late for calls; 0 means unknown.
	lateAfter time.Duration

	// Only the goroutine that runs RunHeartbeats uses the fields below.
	failedHeartbeats int
	// Number of failed heartbeats after which the client is replaced.
	redialAfter int
	// Whether the store has reported that it is a primary since the last failure.
	isPrimary bool

	// Number at which message numbers start; 0 if no heartbeat has been answered yet.
	firstNumber atomic.Uint64
}

var errUnreached = errors.New("the store has not been reached yet")

func newRemoteStore(o StoreOptions) *remoteStore {
	r := &remoteStore{options: o, onBreakerOpen: func() {}, refusalLog: refusalLog{log: zap.NewNop(), prefix: o.Prefix}, redialAfter: initialRedialFailures}
	r.failures.Store(failuresToOpen)
	return r
}

func (r *remoteStore) Available() bool { return r.failures.Load() < failuresToOpen }

func (r *remoteStore) connect() error {
	if r.client.Load() != nil {
		return nil
	}
	c, err := DialStore(r.options)
	if err != nil {
		return err
	}
	r.client.Store(&c)
	return nil
}

// DialStore returns a client for a store. It is meant for commands such as `penstock key`. They
// wait longer than an edge, because the store may be far away or busy.
func DialStore(o StoreOptions) (valkey.Client, error) { return valkey.NewClient(commandOptions(&o)) }

func commandOptions(o *StoreOptions) valkey.ClientOption {
	c := clientOptions(o)
	c.Dialer.Timeout, c.Sentinel.Dialer.Timeout, c.ConnWriteTimeout = commandTimeout, commandTimeout, commandTimeout
	return c
}

// Exchange sends a message to an account. If the connection closes, Exchange sends the message once
// more over another connection, even if the store received the first attempt.
//
// Message numbers start at the store's time in microseconds when this process sent its first
// heartbeat. An earlier process with the same name had already exited by then, so all its numbers
// are lower.
func (r *remoteStore) Exchange(ctx context.Context, id string, m *accountMessage) (accountReply, error) {
	c, first, began := r.client.Load(), r.firstNumber.Load(), time.Now()
	if c == nil || first == 0 {
		return accountReply{}, errUnreached
	}
	key := []string{r.options.Prefix + ":{" + id + "}"}
	answer, err := parseAccountReply(accountScript.Exec(ctx, *c, key, m.scriptArgs(first, 0)))
	// The store may be healthy: a node may have reset the connection, or the connection may have
	// been closed because it was idle.
	if isConnectionReset(err) && ctx.Err() == nil {
		answer, err = parseAccountReply(accountScript.Exec(ctx, *c, key, m.scriptArgs(first, 1)))
	}
	r.countOutcome(id, began, err)
	if errors.Is(err, errOvertaken) { // the store's clock was set back before this process began
		r.firstNumber.CompareAndSwap(first, max(first, answer.laterNumber+maxLateMessages))
	}
	return answer, err
}

// isConnectionReset reports whether the connection closed while a message was in flight. The client
// opens another connection for the next message.
func isConnectionReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// maxLateMessages is the maximum number of messages from a process that may reach the store after
// the process has exited.
const maxLateMessages = 2000

// countOutcome counts the outcome of a command on a key. An overtaken message counts as answered,
// because it reached the store. A rejection is only logged, because it concerns a single key. A
// late answer does not count as a success, because calls would have timed out before it.
func (r *remoteStore) countOutcome(key string, began time.Time, err error) {
	if code := refusalCode(err); code != "" {
		r.refusalLog.logRefusal(key, code, err)
		return
	}
	if err != nil || !r.isLate(began) {
		r.recordOutcome(err)
	}
}

func (r *remoteStore) isLate(began time.Time) bool {
	return r.lateAfter > 0 && time.Since(began) > r.lateAfter
}

// recordOutcome records the outcome of a command for the breaker. Only a heartbeat closes the
// breaker.
func (r *remoteStore) recordOutcome(err error) {
	if err == nil || errors.Is(err, errOvertaken) {
		if r.Available() {
			r.failures.Store(0)
		}
		return
	}
	if r.failures.Load() < failuresToOpen && r.failures.Add(1) == failuresToOpen {
		r.onBreakerOpen()
	}
}

func (r *remoteStore) CountMissed() { r.recordOutcome(context.DeadlineExceeded) }

func (r *remoteStore) ConsecutiveFailures() int { return int(r.failures.Load()) }

// Heartbeat announces this edge. If the answer arrives in time, Heartbeat closes the breaker. If
// the answer is late, Heartbeat returns errLateAnswer.
func (r *remoteStore) Heartbeat(ctx context.Context, edge, said string) (a heartbeatReply, err error) {
	if err := r.connect(); err != nil {
		return heartbeatReply{}, err
	}
	began := time.Now()
	if err = r.checkPrimary(ctx); err == nil {
		a, err = r.sendHeartbeat(ctx, edge, said)
	}
	// The first attempt may have been slow because it had to load the script into the store.
	if err == nil && r.isLate(began) {
		began = time.Now()
		if _, again := r.sendHeartbeat(ctx, edge, said); again != nil || r.isLate(began) {
			err = errLateAnswer
		}
	}
	if err == nil {
		r.failures.Store(0)
	}
	r.recordOutcome(err)
	r.redialAfterFailures(err)
	return a, err
}

// errLateAnswer is the error for a heartbeat whose answer took longer than the timeout for calls.
var errLateAnswer = errors.New("it takes longer to answer than fleet.store.timeout")

func (r *remoteStore) sendHeartbeat(ctx context.Context, edge, said string) (heartbeatReply, error) {
	result := membersScript.Exec(ctx, *r.client.Load(), []string{r.options.Prefix + ":{members}"},
		[]string{edge, strconv.FormatInt(leaseTime.Milliseconds(), 10), said})
	if err := result.Error(); err != nil {
		return heartbeatReply{}, err
	}
	a, err := parseMembers(result)
	if err != nil {
		return heartbeatReply{}, errUnexpectedReply // the reply may belong to another command
	}
	r.firstNumber.CompareAndSwap(0, a.storeMicros) // must be set before the breaker closes
	return a, nil
}

func parseMembers(result valkey.ValkeyResult) (a heartbeatReply, err error) {
	all, err := result.AsStrSlice()
	if err == nil && len(all) < 3 {
		err = errUnexpectedReply
	}
	if err == nil {
		a.entries, a.edgeKnown, a.birth = all[3:], all[0] == "known", all[2]
		a.storeMicros, err = strconv.ParseUint(all[1], 10, 64)
	}
	return a, err
}

var errUnexpectedReply = errors.New("the store's answer has an unexpected form")

// checkPrimary returns an error if the store is a replica. It asks the store for its role on each
// new client and after each failure. A replica that accepts writes loses them when it synchronizes
// with its primary.
func (r *remoteStore) checkPrimary(ctx context.Context) error {
	// Clients for clusters and sentinels find the primary themselves.
	if r.isPrimary || r.options.Cluster || r.options.SentinelMaster != "" {
		return nil
	}
	c := *r.client.Load()
	answer, err := c.Do(ctx, c.B().Role().Build()).ToArray()
	// The user may not have permission for ROLE, and some proxies do not support it.
	if err != nil && refusalCode(err) == "" {
		return err
	}
	if len(answer) > 0 {
		if role, err := answer[0].ToString(); err == nil && role == "slave" {
			return errReplica
		}
	}
	r.isPrimary = true
	return nil
}

var errReplica = errors.New("READONLY it is a replica")

// The client is replaced after initialRedialFailures consecutive failed heartbeats. If heartbeats
// still fail, the number of failures before the next replacement doubles each time, up to
// maxRedialFailures.
const (
	initialRedialFailures = 3
	maxRedialFailures     = 30
)

// redialAfterFailures replaces the client after redialAfter consecutive failed heartbeats. The old
// connection may lead to a store that has become a replica or has lost its primary, while the
// address already leads to another store. Replacing the client also helps if a store has skipped a
// reply: each later command on that connection would get the reply to the command before it.
func (r *remoteStore) redialAfterFailures(err error) {
	if err == nil || errors.Is(err, errLateAnswer) {
		r.failedHeartbeats, r.redialAfter = 0, initialRedialFailures
		return
	}
	r.isPrimary = false
	if r.failedHeartbeats++; r.failedHeartbeats < r.redialAfter {
		return
	}
	r.failedHeartbeats, r.redialAfter = 0, min(2*r.redialAfter, maxRedialFailures)
	(*r.client.Swap(nil)).Close()
}

func (r *remoteStore) EvictionPolicy(ctx context.Context) string {
	c := *r.client.Load()
	policy, err := c.Do(ctx, c.B().ConfigGet().Parameter("maxmemory-policy").Build()).AsStrMap()
	if err != nil {
		return ""
	}
	return policy["maxmemory-policy"]
}

func (r *remoteStore) Close() {
	if c := r.client.Load(); c != nil {
		(*c).Close()
	}
}
