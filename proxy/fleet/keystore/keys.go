package keystore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"

	"penstock/config"
)

// Options configure a Keys.
type Options struct {
	Secrets []string // the first secret signs; each secret verifies
	// Client returns the store's client, or an error if the store has not been reached yet.
	Client func() (valkey.Client, error)
	Prefix string
	Cache  string // file to which the entries are copied; if empty, they are not copied

	// Called with all valid keys, sorted by id, whenever they change.
	Use     func([]config.Key)
	Log     *zap.Logger
	Metrics *metrics.Set
}

// Keys contains the keys that this edge last read from the store. Run and Listen may each be called
// only once. NotReadyReason may be called by multiple goroutines, even on a nil *Keys.
type Keys struct {
	opts    Options
	readNow chan struct{}
	// Update sends a channel here, which Run closes after the next read.
	updateWaiters chan chan struct{}
	ready         chan struct{}
	refused       map[string]*metrics.Counter
	count         atomic.Int64

	// Only Run uses the fields below.
	entries map[string]entry
	// Last entry that was rejected and logged, keyed by key id.
	lastRefused map[string]string
	lastChange  string
	readCount   int
	failedReads int
}

// readInterval is the interval between two reads of the change number. If the message about a
// revocation is lost, the revocation still takes effect within this time.
const readInterval = 500 * time.Millisecond

// intervalsPerFullRead: every so many intervals, all entries are read even if the change number is
// unchanged. Such a read finds entries that were replaced or removed without a new change number.
const intervalsPerFullRead = 20

// New returns the Keys for an edge. If the file Options.Cache exists, the edge starts with the keys
// in this file.
func New(o Options) *Keys {
	k := &Keys{
		opts: o, readNow: make(chan struct{}, 1), updateWaiters: make(chan chan struct{}), ready: make(chan struct{}), entries: map[string]entry{},
		lastRefused: map[string]string{}, refused: map[string]*metrics.Counter{},
	}
	for _, reason := range []string{entryForged, entryOldVersion, entryBroken} {
		k.refused[reason] = o.Metrics.NewCounter(`penstock_fleet_keys_refused_total{reason="` + reason + `"}`)
	}
	o.Metrics.NewGauge("penstock_fleet_keys", func() float64 { return float64(k.count.Load()) })
	if o.Cache == "" {
		return k
	}
	all, err := readCacheFile(o.Cache)
	if err != nil {
		o.Log.Warn("there is no copy of the store's keys to start with", zap.Error(err))
		return k
	}
	if k.adoptEntries(all, nil) {
		k.applyKeys()
	}
	close(k.ready)
	return k
}

// NotReadyReason returns why the edge is not ready yet. If the keys have been read, it returns "".
func (k *Keys) NotReadyReason() string {
	if k == nil || k.isReady() {
		return ""
	}
	return "the keys in the fleet's store have not been read yet"
}

// Run keeps the keys up to date until ctx is done.
func (k *Keys) Run(ctx context.Context) {
	if k.NotReadyReason() != "" {
		k.opts.Log.Info("until the store's keys have been read, keys that the file does not have are refused with 503")
	}
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	for {
		k.readIfChanged(ctx)
		select {
		case <-tick.C:
		case done := <-k.updateWaiters:
			k.lastChange = ""
			k.readIfChanged(ctx)
			close(done)
		case <-k.readNow:
			k.lastChange = "" // another writer may have changed the number to any value
		case <-ctx.Done():
			return
		}
	}
}

// Listen makes Run read whenever the store publishes a change. It returns when ctx is done.
func (k *Keys) Listen(ctx context.Context) {
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if c, err := k.opts.Client(); err == nil {
			// Some stores do not allow other commands on a subscribed connection.
			own, _ := c.Dedicate()
			// Receive blocks until the connection is lost.
			changes := own.B().Subscribe().Channel(keysHashName(k.opts.Prefix)).Build()
			_ = own.Receive(ctx, changes, func(valkey.PubSubMessage) { k.triggerRead() })
			own.Close()
			k.triggerRead() // a change may have been missed
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Entries returns the bodies of the entries that are not revoked, keyed by key id.
func (k *Keys) Entries(ctx context.Context) (map[string]string, error) {
	c, err := k.opts.Client()
	if err != nil {
		return nil, err
	}
	fields, err := c.Do(ctx, c.B().Hgetall().Key(keysHashName(k.opts.Prefix)).Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for field, raw := range fields {
		id, ok := strings.CutPrefix(field, keyField)
		if e, err := parseEntry(k.opts.Secrets, id, raw); ok && err == nil && !e.revoked {
			all[id] = e.body
		}
	}
	return all, nil
}

// Update replaces a key's entry like Writer.Update, and waits until this edge uses the new entry.
// The other edges use it within a second.
func (k *Keys) Update(ctx context.Context, id string, next func(entry string) (string, error)) error {
	c, err := k.opts.Client()
	if err != nil {
		return err
	}
	if err := NewWriter(c, k.opts.Prefix, k.opts.Secrets).Update(ctx, id, next); err != nil {
		return err
	}
	done := make(chan struct{})
	select {
	case k.updateWaiters <- done:
	case <-ctx.Done(): // the new entry is in the store, but this edge does not use it yet
		return nil
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	return nil
}

// EffectNotice returns a text that tells operators when a change takes effect.
func (k *Keys) EffectNotice() string { return "It is in force at all edges within a second." }

func (k *Keys) triggerRead() {
	select {
	case k.readNow <- struct{}{}:
	default:
	}
}

// readIfChanged reads the keys if they have changed. It logs when reading starts to fail and when
// it succeeds again.
func (k *Keys) readIfChanged(ctx context.Context) {
	client, err := k.opts.Client()
	if err == nil {
		err = k.readEntries(ctx, client)
	}
	switch {
	case err == nil:
		if k.failedReads >= logAfterFailures {
			k.opts.Log.Info("the keys in the store can be read again")
		}
		k.failedReads = 0
	case ctx.Err() == nil:
		if k.failedReads++; k.failedReads == logAfterFailures {
			k.opts.Log.Warn("the keys in the store cannot be read: the last ones read stay in force", zap.Error(err))
		}
	}
}

// logAfterFailures is the number of consecutive failed reads after which the failure is logged.
// When an edge starts, the first read often fails because the store has not been reached yet.
const logAfterFailures = 3

func (k *Keys) readEntries(ctx context.Context, c valkey.Client) error {
	ctx, cancel := context.WithTimeout(ctx, readInterval)
	defer cancel()
	name := keysHashName(k.opts.Prefix)
	numbers, err := c.Do(ctx, c.B().Hmget().Key(name).Field(changeField).Build()).ToArray()
	if err != nil {
		return err
	}
	if len(numbers) != 1 {
		return errors.New("the store gives no change number")
	}
	change := parseChangeNumber(numbers[0])
	if k.readCount++; change == k.lastChange && change != "" && k.isReady() && k.readCount%intervalsPerFullRead != 0 {
		return nil
	}
	fields, err := c.Do(ctx, c.B().Hgetall().Key(name).Build()).AsStrMap()
	if err != nil {
		return err
	}
	all := map[string]string{}
	for field, raw := range fields {
		if id, ok := strings.CutPrefix(field, keyField); ok {
			all[id] = raw
		}
	}
	changed := k.adoptEntries(all, func(id, expected, raw string) { k.restoreEntry(ctx, c, id, expected, raw) })
	k.lastChange = change
	if changed || !k.isReady() {
		k.applyKeys()
		k.writeCache()
	}
	if !k.isReady() {
		close(k.ready)
	}
	return nil
}

// parseChangeNumber returns the change number, or "" if it is missing or so large that the next
// change cannot increment it. All entries are then read after every readInterval.
func parseChangeNumber(m valkey.ValkeyMessage) string {
	text, _ := m.ToString() // a nil message if no key has been written yet
	if n, err := strconv.ParseUint(text, 10, 64); err != nil || n >= maxChangeNumber {
		return ""
	}
	return text
}

// maxChangeNumber is the smallest number that a script in the store cannot increment, because Lua
// numbers are doubles.
const maxChangeNumber = 1 << 53

func (k *Keys) isReady() bool {
	select {
	case <-k.ready:
		return true
	default:
		return false
	}
}

// adoptEntries adopts entries, and reports whether the keys have changed. It calls restore for each
// entry that is missing from the store, or older in the store than at this edge. restore may be
// nil.
func (k *Keys) adoptEntries(all map[string]string, restore func(id, expected, raw string)) (changed bool) {
	for id, raw := range all {
		held, has := k.entries[id]
		if has && held.raw == raw {
			delete(k.lastRefused, id)
			continue
		}
		e, err := parseEntry(k.opts.Secrets, id, raw)
		if err == nil && has && e.version <= held.version {
			err = &refusedEntryError{entryOldVersion, errors.New("it is older than one that was read before")}
			if restore != nil {
				restore(id, raw, held.raw)
			}
		}
		if err != nil {
			k.logRefused(id, raw, err)
			continue
		}
		delete(k.lastRefused, id)
		k.entries[id], changed = e, true
	}
	for id, held := range k.entries {
		if _, there := all[id]; !there && restore != nil {
			restore(id, "", held.raw)
		}
	}
	maps.DeleteFunc(k.lastRefused, func(id, _ string) bool {
		_, there := all[id]
		return !there
	})
	return changed
}

func (k *Keys) logRefused(id, raw string, err error) {
	if last, before := k.lastRefused[id]; before && last == raw {
		return
	}
	k.lastRefused[id] = raw
	reason := entryBroken
	var r *refusedEntryError
	if errors.As(err, &r) {
		reason = r.reason
	}
	k.refused[reason].Inc()
	k.opts.Log.Error("a key's entry in the store is refused",
		zap.String("reason", reason), zap.String("key", id), zap.Error(err))
}

// restoreEntry writes an entry back to the store, unless another writer has changed the entry since
// it was read.
func (k *Keys) restoreEntry(ctx context.Context, c valkey.Client, id, expected, raw string) {
	if done, err := putIfUnchanged(ctx, c, k.opts.Prefix, id, expected, raw); err == nil && done {
		k.opts.Log.Warn("a key's entry was missing from the store, or older than before: the last one is restored",
			zap.String("key", id))
	}
}

func (k *Keys) applyKeys() {
	var keys []config.Key
	for _, e := range k.entries {
		if !e.revoked {
			keys = append(keys, e.key)
		}
	}
	slices.SortFunc(keys, func(a, b config.Key) int { return cmp.Compare(a.ID, b.ID) })
	k.count.Store(int64(len(keys)))
	k.opts.Use(keys)
	k.opts.Log.Info("the keys of the store are in force", zap.Int("keys", len(keys)))
}

func (k *Keys) writeCache() {
	if k.opts.Cache == "" {
		return
	}
	all := make(map[string]string, len(k.entries))
	for id, e := range k.entries {
		all[id] = e.raw
	}
	if err := writeCacheFile(k.opts.Cache, all); err != nil {
		k.opts.Log.Error("the copy of the store's keys cannot be written: the edge continues without it", zap.Error(err))
	}
}
