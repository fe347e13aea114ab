package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim"
	"penstock/bench/sim/scheduler"
)

// EngineKind describes an engine and its hardware: its speed, and how many requests it serves
// concurrently.
type EngineKind struct {
	Name  string
	Price float64 // price per hour; 0 if not set
	o     sim.Options
}

// engineFigureParsers maps the name of each figure to a function that parses and stores the figure.
var engineFigureParsers = map[string]func(*sim.Options, string) error{
	"prefill": func(o *sim.Options, v string) error { return parsePositiveNumber(&o.PrefillRate, v) },
	"token":   func(o *sim.Options, v string) error { return parsePositiveNumber(&o.TokenRate, v) },
	"batch":   func(o *sim.Options, v string) error { return parseDuration(&o.BatchCost, v) },
	"latency": func(o *sim.Options, v string) error { return parseDuration(&o.Latency, v) },
	"slots":   func(o *sim.Options, v string) error { return parseCount(&o.Slots, v) },
	"kv":      func(o *sim.Options, v string) error { return parseCount(&o.KVTokens, v) },
}

var errNotPositive = errors.New("want a number above 0")

func parsePositiveNumber(to *float64, text string) (err error) {
	if *to, err = strconv.ParseFloat(text, 64); err != nil || !(*to > 0 && *to <= 1e9) {
		return errNotPositive
	}
	return nil
}

func parseDuration(to *time.Duration, text string) (err error) {
	if *to, err = time.ParseDuration(text); err != nil || *to < 0 || *to > time.Minute {
		return errors.New("want a time of up to a minute, such as 400us")
	}
	return nil
}

func parseCount(to *int, text string) (err error) {
	if *to, err = strconv.Atoi(text); err != nil || *to <= 0 || *to > 1e9 {
		return errNotPositive
	}
	return nil
}

// ParseKind parses NAME[:FIGURE=V,…][@PRICE]. If NAME is one of the simulator's speeds, the kind
// starts with the figures of that speed. Any other name requires explicit figures.
func ParseKind(text string) (*EngineKind, error) {
	spec, price, priced := strings.Cut(text, "@")
	name, rest, own := strings.Cut(spec, ":")
	k := &EngineKind{Name: name}
	if priced {
		if err := parsePositiveNumber(&k.Price, price); err != nil {
			return nil, fmt.Errorf("%q: the price: %w", text, err)
		}
	}
	known := slices.Contains(sim.Speeds(), name)
	if own {
		for _, pair := range strings.Split(rest, ",") {
			key, value, _ := strings.Cut(pair, "=")
			set := engineFigureParsers[key]
			if set == nil {
				return nil, fmt.Errorf("%q: %q is none of prefill, token, batch, latency, slots and kv", text, key)
			}
			if err := set(&k.o, value); err != nil {
				return nil, fmt.Errorf("%q: %s: %w", text, key, err)
			}
		}
	}
	if known {
		if err := k.o.SetSpeed(name); err != nil {
			return nil, err
		}
	}
	if name == "" || k.o.PrefillRate <= 0 || k.o.TokenRate <= 0 || k.o.Slots <= 0 || k.o.KVTokens <= 0 {
		return nil, fmt.Errorf("%q: want %s, or NAME:prefill=N,token=N,slots=N,kv=N of your own", text,
			strings.Join(slices.DeleteFunc(sim.Speeds(), func(s string) bool { return s == "instant" }), ", "))
	}
	return k, nil
}

// tokenGapSeconds returns the time in seconds between two tokens of a request while the given
// number of requests is running.
func (k *EngineKind) tokenGapSeconds(running int) float64 {
	return 1/k.o.TokenRate + k.o.BatchCost.Seconds()*float64(running-1)
}

// withSlowdown returns a kind for which everything takes factor times as long.
func (k *EngineKind) withSlowdown(factor float64) *EngineKind {
	out := *k
	out.o.PrefillRate /= factor
	out.o.TokenRate /= factor
	out.o.BatchCost = time.Duration(float64(k.o.BatchCost) * factor)
	out.o.Latency = time.Duration(float64(k.o.Latency) * factor)
	return &out
}

// canServe reports whether the engine could ever serve a request.
func (k *EngineKind) canServe(r *request) bool { return r.in+r.out <= k.o.KVTokens }

// engine is a simulated engine in virtual time. It follows the rules of package sim, but time
// advances from event to event rather than from token to token.
type engine struct {
	k     *EngineKind
	cache *scheduler.PrefixCache

	waiting  []*runningCall // calls waiting for a slot or room, in order
	running  []*runningCall // calls in the order in which they got their slots
	decoding []*runningCall // running requests that are decoding

	now float64 // time of the last update
	// number of tokens that a request would have received if it had been decoding from the start
	decodedTokens float64
	pins          scheduler.BlockPins // blocks of running requests
	usedRoom      float64             // tokens of room in use by running requests; a shared block counts once
	prefillEnd    float64             // time at which all queued prompts will have been read
	// version of the next scheduled change; events with older versions are ignored
	version int
	peak    int
	calls   int
	busy    float64 // integral of the number of requests over time
}

func newEngine(k *EngineKind) *engine {
	e := &engine{k: k}
	// The block sizes differ, so each block of the trace counts as one block of the cache.
	e.cache = scheduler.NewPrefixCache(max(1, k.o.KVTokens/traceBlock) * scheduler.BlockTokens)
	return e
}

// advance advances the time to now. It adds the number of tokens decoded in the meantime to
// tokens[len(e.running)].
func (e *engine) advance(now float64, tokens []float64) {
	dt := now - e.now
	e.now = now
	e.busy += dt * float64(len(e.running)+len(e.waiting))
	if len(e.decoding) == 0 || dt <= 0 {
		return
	}
	n := dt / e.k.tokenGapSeconds(len(e.running))
	e.decodedTokens += n
	e.usedRoom += n * float64(len(e.decoding))
	tokens[len(e.running)] += n * float64(len(e.decoding))
}

// timeToNextChange returns how long it takes until a request is complete or the decoded tokens
// exceed the room. It returns false if neither will happen.
func (e *engine) timeToNextChange() (in float64, ok bool) {
	if len(e.decoding) == 0 {
		return 0, false
	}
	least := e.decoding[0].endMark - e.decodedTokens
	for _, c := range e.decoding {
		least = min(least, c.endMark-e.decodedTokens)
	}
	if len(e.running) > 1 && !e.running[len(e.running)-1].evicted {
		least = min(least, (float64(e.k.o.KVTokens+1)-e.usedRoom)/float64(len(e.decoding)))
	}
	return max(0, least) * e.k.tokenGapSeconds(len(e.running)), true
}

// fullBlocks returns the prompt's full blocks, which other calls may share.
func (c *runningCall) fullBlocks() []uint64 { return c.blocks[:min(len(c.blocks), c.in/traceBlock)] }

// ownTokens returns the number of a call's tokens that are outside its full blocks.
func (c *runningCall) ownTokens() float64 {
	return c.roomTokens - float64(len(c.fullBlocks())*traceBlock)
}

// neededRoom returns the room that a call would need.
func (e *engine) neededRoom(c *runningCall) float64 {
	return c.ownTokens() + float64(e.pins.CountUnheld(c.fullBlocks())*traceBlock)
}

// startQueuedCalls gives slots and room to the calls at the head of the queue. For each of them, it
// invokes start with the time at which the prompt will have been read.
func (e *engine) startQueuedCalls(start func(c *runningCall, due float64)) {
	for len(e.waiting) > 0 {
		c := e.waiting[0]
		if n := len(e.running); n >= e.k.o.Slots || n > 0 && e.usedRoom+e.neededRoom(c) > float64(e.k.o.KVTokens) {
			return
		}
		e.waiting = e.waiting[1:]
		e.running = append(e.running, c)
		e.peak = max(e.peak, len(e.running))
		e.usedRoom += c.ownTokens() + float64(e.pins.AddHolder(c.fullBlocks())*traceBlock)
		known := e.cache.Lookup(c.blocks, 1<<40) / scheduler.BlockTokens * traceBlock
		known = min(known, c.in-1)
		if !c.hadSlot {
			c.hadSlot, c.cached = true, known
		}
		// Prompts are read in order, so a later prompt finds the blocks of this prompt in the
		// cache.
		e.cache.Insert(c.blocks)
		e.prefillEnd = max(e.prefillEnd, e.now) + (c.roomTokens-float64(known))/e.k.o.PrefillRate
		start(c, e.prefillEnd+e.k.o.Latency.Seconds())
	}
}

// startDecoding lets a request decode from now on. It reports whether the request is complete
// because its first token was also its last.
func (e *engine) startDecoding(c *runningCall) (done bool) {
	if c.firstTokenAt < 0 {
		c.firstTokenAt, c.tokensLeft = e.now, float64(c.out-1)
		c.roomTokens++
		e.usedRoom++
	}
	if c.tokensLeft < tokenTolerance {
		e.releaseSlot(c)
		return true
	}
	if c.evicted {
		e.requeue(c)
		return false
	}
	c.endMark = e.decodedTokens + c.tokensLeft
	e.decoding = append(e.decoding, c)
	return false
}

// tokenTolerance absorbs rounding errors: a token counts as decoded if less than this fraction of
// it is missing.
const tokenTolerance = 1e-6

// removeFinished removes a completed request from its slot. It returns nil if no request is
// complete.
func (e *engine) removeFinished() *runningCall {
	for _, c := range e.decoding {
		if c.endMark-e.decodedTokens < tokenTolerance {
			e.releaseSlot(c)
			return c
		}
	}
	return nil
}

// evictNewest moves the newest requests back to the queue until the decoded tokens fit in the room.
// A request whose prompt is still being read is evicted at its first token.
func (e *engine) evictNewest() {
	for len(e.running) > 1 && e.usedRoom >= float64(e.k.o.KVTokens+1)-tokenTolerance {
		c := e.running[len(e.running)-1]
		if c.evicted {
			return
		}
		c.evicted = true
		if !slices.Contains(e.decoding, c) {
			return
		}
		e.requeue(c)
	}
}

// releaseSlot removes a request from its slot and releases its room.
func (e *engine) releaseSlot(c *runningCall) {
	if i := slices.Index(e.decoding, c); i >= 0 {
		written := c.tokensLeft - (c.endMark - e.decodedTokens)
		c.tokensLeft, c.roomTokens = c.tokensLeft-written, c.roomTokens+written
		e.decoding = slices.Delete(e.decoding, i, i+1)
	}
	e.usedRoom -= c.ownTokens() + float64(e.pins.RemoveHolder(c.fullBlocks())*traceBlock)
	i := slices.Index(e.running, c)
	e.running = slices.Delete(e.running, i, i+1)
}

// requeue moves a request from its slot to the head of the queue.
func (e *engine) requeue(c *runningCall) {
	e.releaseSlot(c)
	c.evicted = false
	e.waiting = slices.Insert(e.waiting, 0, c)
}
