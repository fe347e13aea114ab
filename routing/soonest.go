package routing

import (
	"penstock/upstreams"
)

// A call goes to the target at which the first tokens of its answer would arrive soonest. Before
// that, the engine reads the prompts ahead of the call and the uncached tokens of the call's own
// prompt, and the call waits for its turn to run.

const (
	// firstTokens is the number of tokens of an answer that a pick considers. They are enough for
	// the writing speed to matter next to the wait for the first token. They are few compared with
	// an answer, because clients read along.
	firstTokens = 10
	// missingWeight is the weight of tokens that another engine holds. They weigh more than others,
	// because reading them again evicts other prompts from this engine's cache and delays the calls
	// behind. With a weight of 1, calls leave a warm engine too easily: with 64 agents at 8
	// engines, the 90th percentile was 4.45 s at a weight of 1.5, and 2.5 s at 2.
	missingWeight = 2
	// nearTie is the factor by which a target may be later than the soonest target and still become
	// the home of a conversation that no engine knows. The estimates are no more precise than this.
	nearTie = 1.1
	// leastTokens is the minimum weight of a prompt while no speed is known. With it, calls with no
	// prompt, or a few words, are compared by the batches that they would join.
	leastTokens = 128
)

// need is the number of tokens of a query's prompt that engines would have to read.
type need struct {
	all   float64
	block float64 // tokens of one block
	fresh float64 // tokens that no engine holds
}

// needs computes the number of tokens of the prompt.
func (q *search) needs() need {
	tokens := float64(q.Tokens)
	if q.known.n == 0 {
		return need{all: tokens, fresh: tokens}
	}
	text := float64(max(q.Text, blockBytes*len(q.Prefix)))
	if tokens == 0 {
		tokens = text / usualToken
	}
	block := tokens / text * blockBytes
	return need{tokens, block, max(0, tokens-block*float64(q.known.blocks()))}
}

// at() returns the number of tokens that a target would have to read, and their cost. Blocks that
// many conversations share cost half, or nothing.
func (n *need) at(k *knowledge, t *Target) (uncached, charged float64) {
	if k.n == 0 {
		return n.all, n.all
	}
	held, missing := k.held(t.member)
	return max(0, n.all-n.block*float64(held)), n.fresh + missingWeight*n.block*missing
}

// promptAt returns the figures that a lease at the target books for the call's prompt.
func (q *search) promptAt(t *Target) upstreams.Prompt {
	n := q.needs()
	uncached, _ := n.at(&q.known, t)
	p := upstreams.Prompt{Tokens: q.Tokens, Uncached: int(uncached)}
	if held, _ := q.known.held(t.member); held > 0 {
		p.Stays = held > q.known.own()
		p.Age = t.directory.age(q.Prefix[held-1], t.member)
	}
	return p
}

// Counted records the engine's count of a leased call's prompt: its tokens, and how many of them
// were cached. It corrects the directory's estimate of the cache.
func (t *Target) Counted(l *upstreams.Lease, tokens, cached int) {
	if !t.Upstream.Cache.Counted(cached) {
		return
	}
	l.Counted(tokens, cached)
	// A prompt that an engine was still reading for another call proves nothing: such a prompt is
	// no older than the unread tokens.
	if p := l.Prompt(); t.directory != nil && p.Tokens > 0 && p.Age*blockBytes >= l.Ahead()*usualToken {
		share := float64(tokens) / float64(p.Tokens) // the prompt's tokens were estimated
		t.directory.counted(t, int(share*float64(p.Tokens-p.Uncached)), cached, p.Age)
	}
}

// timeOf returns the time in seconds that a call would wait for the first tokens of its answer.
// charged is the number of prompt tokens that the engine has to read for the call. In that time the
// engine reads the prompts ahead of the call and the call's own prompt, and writes the tokens while
// it also serves the other calls. Calls beyond the number that the engine runs at once
// (Load.Places) wait for running calls to end. A recent failure weighs like one call. A weight is
// the factor by which the engine is faster than measured.
func timeOf(l *upstreams.Load, v *upstreams.Speed, charged float64) float64 {
	calls := float64(l.Active+1) + l.Usual
	ahead := float64(l.Unread)
	ahead = max(ahead/10, ahead-l.Reading/v.Prefill)
	unread := ahead + charged + l.Usual*v.Unread
	places := float64(max(1, l.Places))
	full := calls / places // to the fourth power: little up to one half, two calls' time at one
	wait := (max(0, calls-places) + 2*full*full*full*full + l.Penalty) / places * v.Answer
	return (wait + v.Start + unread*v.Prefill + firstTokens*v.TokenTime(calls)) / l.Weight
}

// productOf replaces the time while too few speeds are known. It multiplies the tokens to be read
// by the fullness of the engine, so that neither long prompts nor large batches gather at one
// engine (LMetric, arXiv 2603.15202). A weight is the engine's share of both, relative to other
// engines.
func productOf(l *upstreams.Load, charged float64) float64 {
	calls := float64(l.Active+1) + l.Usual + l.Penalty
	return (float64(l.Unread)/l.Weight + charged + leastTokens) * calls * l.Share
}

// doubt is the penalty at which an engine's cache stops counting: two failures, or the slow start
// after an outage.
const doubt = 2

// soonest picks the target with the shortest estimated time if the speeds of all targets with room
// are known, and otherwise the target with the smallest product. A conversation that no engine
// knows goes to its home, if that is nearly as soon.
func (c *choice) soonest() (best *Target, eligible bool) {
	var all scores
	if all.known = true; !c.score(&all) {
		all.known, all.met, all.n, all.best.n = false, false, 0, 0
		c.score(&all)
	}
	home := false
	if key := c.q.homeKey(); all.n > 0 && (key != 0 || c.q.known.place != 0) {
		best = c.home(key, &all, nearTie*all.best.score)
		home = best != nil
	}
	if !home {
		best = all.best.target(c.r.targets, c.q.Rand)
	}
	if c.q.Why != nil && best != nil {
		c.q.explain(c.r.targets, &all, best, home)
	}
	return best, all.met
}

// score visits the targets that have room and scores them by time if all.known is set, and by
// product otherwise. It returns false if times were wanted and a target's speed is unknown.
func (c *choice) score(all *scores) bool {
	var speed upstreams.Speed
	need := c.q.needs()
	w := c.turn(c.start)
	for t := w.next(); t != nil; t = w.next() {
		all.met = true
		if w.load.Taken >= w.load.Limit {
			continue
		}
		uncached, charged := need.at(&c.q.known, t)
		if w.load.Penalty >= doubt {
			charged = need.all
		}
		var score float64
		switch {
		case !all.known:
			score = productOf(&w.load, charged)
		case t.model.Speed(&speed, c.q.at):
			score = timeOf(&w.load, &speed, charged)
		default:
			return false
		}
		all.add(w.at, need.all-uncached, score)
	}
	return true
}

// scores holds the scores of the targets that a pick has looked at, up to maxEqual.
type scores struct {
	best  lowest
	known bool // the scores are times, not products
	met   bool // the query may go to some target, with or without room
	n     int
	of    [maxEqual]scored
}

type scored struct {
	at    uint16 // the target's position
	held  int32  // number of the prompt's tokens that the engine holds
	score float64
}

func (s *scores) add(at int, held, score float64) {
	s.best.show(at, score)
	if s.n < maxEqual {
		s.of[s.n] = scored{uint16(at), int32(held), score}
		s.n++
	}
}

// homeKey returns the number that determines the home of the call's conversation: the session or,
// if that is unknown, the client's cache key or the first block that few conversations share. The
// cache key is not used if conversations with that key are known to have the same prefix, since the
// key would gather them at one engine. If an engine knows the conversation, or nothing
// distinguishes the conversation, homeKey returns 0.
func (q *search) homeKey() uint64 {
	own := q.known.own()
	switch {
	case q.known.blocks() > own:
		return 0
	case q.Session != 0:
		return q.Session
	case q.CacheKey != 0 && own == 0:
		return q.CacheKey
	case own < len(q.Prefix):
		return q.Prefix[own]
	}
	return 0
}

// home chooses among the targets that are soon enough. It returns the target to which other edges
// sent the conversation or, if there is none, the target that ranks first for the key (rendezvous
// hashing). Every edge in front of the same engines ranks the engines in the same order, so edges
// agree without communicating.
func (c *choice) home(key uint64, all *scores, latest float64) (best *Target) {
	first := uint64(0)
	for i := range all.of[:all.n] {
		t := &c.r.targets[all.of[i].at]
		if all.of[i].score > latest {
			continue
		}
		if int16(t.member)+1 == c.q.known.place {
			return t
		}
		if rank := mix(key ^ t.rank); key != 0 && (best == nil || rank < first) {
			best, first = t, rank
		}
	}
	return best
}
