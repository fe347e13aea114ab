package routing

import (
	"penstock/upstreams"
)

// A call goes to the target that would send the first tokens of the response soonest. Before the
// engine generates them, it reads the queued prompts and the uncached tokens of the call's prompt,
// and the call may have to wait until a running call ends.

const (
	// estimatedResponseTokens is how many response tokens the estimate includes. It is large enough
	// for the decoding speed to matter in addition to the time to first token. It is small compared
	// with the length of a response, because clients read the response while it streams.
	estimatedResponseTokens = 10
	// uncachedWeight is the weight of tokens that an engine would have to read even though another
	// engine has cached them. Such tokens count more than others, because reading them again evicts
	// other prompts from this engine's cache and delays the queued calls. With a weight of 1, calls
	// move away from a warm cache too easily. In a test with 64 agents and 8 engines, the 90th
	// percentile of the time was 4.45 s with a weight of 1.5, and 2.5 s with a weight of 2.
	uncachedWeight = 2
	// maxHomeTimeRatio is the maximum ratio between the estimated time of a new conversation's home
	// and that of the best target. The estimates are no more precise than this.
	maxHomeTimeRatio = 1.1
	// basePromptTokens is added to the prompt tokens while speeds are unknown. For calls with short
	// prompts, the number of running calls at each engine then decides.
	basePromptTokens = 128
)

// promptNeed describes how many tokens of a prompt an engine may have to read.
type promptNeed struct {
	totalTokens    float64
	tokensPerBlock float64
	freshTokens    float64 // tokens that no engine has cached
}

func (q *targetSearch) promptNeed() promptNeed {
	tokens := float64(q.Tokens)
	if q.cached.n == 0 {
		return promptNeed{totalTokens: tokens, freshTokens: tokens}
	}
	text := float64(max(q.Text, blockBytes*len(q.Prefix)))
	if tokens == 0 {
		tokens = text / defaultBytesPerToken
	}
	block := tokens / text * blockBytes
	return promptNeed{tokens, block, max(0, tokens-block*float64(q.cached.knownBlockCount()))}
}

// costAt returns how many tokens a target would have to read, and their cost. Blocks shared by many
// conversations cost half as much, or nothing.
func (n *promptNeed) costAt(k *cacheMatch, t *Target) (uncached, charged float64) {
	if k.n == 0 {
		return n.totalTokens, n.totalTokens
	}
	held, missing := k.cachedBlockCount(t.engineNumber)
	return max(0, n.totalTokens-n.tokensPerBlock*float64(held)), n.freshTokens + uncachedWeight*n.tokensPerBlock*missing
}

// leasePrompt returns the Prompt to acquire a lease on the target with.
func (q *targetSearch) leasePrompt(t *Target) upstreams.Prompt {
	n := q.promptNeed()
	uncached, _ := n.costAt(&q.cached, t)
	p := upstreams.Prompt{Tokens: q.Tokens, Uncached: int(uncached)}
	if held, _ := q.cached.cachedBlockCount(t.engineNumber); held > 0 {
		p.Stays = held > q.cached.sharedBlockCount()
		p.Age = t.prefixIndex.blockReuseDistance(q.Prefix[held-1], t.engineNumber)
	}
	return p
}

// RecordPromptTokens records the prompt tokens and cached tokens that the engine reported for a
// lease. These counts correct the estimated size of the engine's cache.
func (t *Target) RecordPromptTokens(l *upstreams.Lease, tokens, cached int) {
	if !t.Upstream.Cache.RecordCached(cached) {
		return
	}
	l.RecordPromptTokens(tokens, cached)
	// The count is meaningless if the engine was still reading this prompt for another call. In
	// that case, the prompt's age is less than the unread tokens.
	if p := l.Prompt(); t.prefixIndex != nil && p.Tokens > 0 && p.Age*blockBytes >= l.TokensAhead()*defaultBytesPerToken {
		share := float64(tokens) / float64(p.Tokens) // p.Tokens was only an estimate
		t.prefixIndex.adjustCacheSize(t, int(share*float64(p.Tokens-p.Uncached)), cached, p.Age)
	}
}

// estimateSeconds estimates how many seconds it takes until a call's first tokens arrive. charged
// is how many prompt tokens the engine has to read for the call. The estimate includes reading the
// queued prompts and the call's prompt, and decoding the first tokens while the engine serves the
// other calls. If there are more calls than l.Places, some of them wait for running calls to end. A
// recent failure counts as one call. The weight of an upstream is the factor by which its engine is
// assumed to be faster than measured.
func estimateSeconds(l *upstreams.Load, v *upstreams.Speed, charged float64) float64 {
	calls := float64(l.Active+1) + l.Usual
	ahead := float64(l.Unread)
	ahead = max(ahead/10, ahead-l.Reading/v.Prefill)
	unread := ahead + charged + l.Usual*v.Unread
	places := float64(max(1, l.Places))
	// The fourth power of full is small up to one half. If all places are full, twice the fourth
	// power adds the time of two calls.
	full := calls / places
	wait := (max(0, calls-places) + 2*full*full*full*full + l.Penalty) / places * v.Answer
	return (wait + v.Start + unread*v.Prefill + estimatedResponseTokens*v.TokenTime(calls)) / l.Weight
}

// loadScore returns the score that is used instead of estimateSeconds while speeds are unknown. It
// multiplies the tokens to read by the fill level of the engine, so that neither long prompts nor
// large batches accumulate at one engine (LMetric, arXiv 2603.15202). The upstream's weight scales
// both factors.
func loadScore(l *upstreams.Load, charged float64) float64 {
	calls := float64(l.Active+1) + l.Usual + l.Penalty
	return (float64(l.Unread)/l.Weight + charged + basePromptTokens) * calls * l.Share
}

// distrustPenalty is the penalty at which an engine's cache no longer counts. Two failures, or the
// slow start after an outage, reach it.
const distrustPenalty = 2

// pickSoonest picks the target with the shortest estimated time or, while speeds are unknown, with
// the smallest loadScore. A new conversation goes to its home if the home's score is nearly as
// good.
func (c *targetScan) pickSoonest() (best *Target, eligible bool) {
	var all targetScores
	all.useTime = c.r.siblingSpeeds.Refresh(c.q.moment)
	c.scoreTargets(&all)
	home := false
	if key := c.q.homeKey(); all.n > 0 && (key != 0 || c.q.cached.placedMember != 0) {
		best = c.pickHome(key, &all, maxHomeTimeRatio*all.best.score)
		home = best != nil
	}
	if !home {
		best = all.best.pickRandom(c.r.targets, c.q.Rand)
	}
	if c.q.Why != nil && best != nil {
		c.q.recordPickReason(c.r.targets, &all, best, home)
	}
	return best, all.anyFound
}

// scoreTargets scores the targets that have free slots.
func (c *targetScan) scoreTargets(all *targetScores) {
	var speed upstreams.Speed
	need := c.q.promptNeed()
	w := c.iterate(c.start)
	for t := w.next(); t != nil; t = w.next() {
		all.anyFound = true
		if w.load.Taken >= w.load.Limit {
			continue
		}
		uncached, charged := need.costAt(&c.q.cached, t)
		if w.load.Penalty >= distrustPenalty {
			charged = need.totalTokens
		}
		var score float64
		if all.useTime {
			c.r.siblingSpeeds.ReadSpeed(w.pos, &speed)
			score = estimateSeconds(&w.load, &speed, charged)
		} else {
			score = loadScore(&w.load, charged)
		}
		all.addScore(w.pos, need.totalTokens-uncached, score)
	}
}

// targetScores contains the scores of up to maxEqualTargets targets.
type targetScores struct {
	best     lowestScores
	useTime  bool // the scores are times rather than products
	anyFound bool // the query may use at least one target, even if that target is full
	n        int
	targets  [maxEqualTargets]targetScore
}

type targetScore struct {
	pos          uint16
	cachedTokens int32 // prompt tokens that the engine has cached
	score        float64
}

func (s *targetScores) addScore(at int, held, score float64) {
	s.best.addScore(at, score)
	if s.n < maxEqualTargets {
		s.targets[s.n] = targetScore{uint16(at), int32(held), score}
		s.n++
	}
}

// homeKey returns the number that determines the home of the call's conversation. It is the first
// of these that is known: the session, the client's cache key, or the first block that few
// conversations share. The cache key is ignored if the prompt has a shared prefix, because all
// conversations with that prefix and key would then go to one engine. If an engine has cached more
// than the shared prefix, or nothing distinguishes the conversation from others, homeKey returns 0.
func (q *targetSearch) homeKey() uint64 {
	own := q.cached.sharedBlockCount()
	switch {
	case q.cached.knownBlockCount() > own:
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

// pickHome chooses among the targets with a score of at most latest. If other edges have sent the
// conversation to one of these targets, pickHome returns that target. Otherwise, it returns the
// target that ranks first for the key (rendezvous hashing). All edges that use the same engines
// compute the same ranks, so they agree without communication.
func (c *targetScan) pickHome(key uint64, all *targetScores, latest float64) (best *Target) {
	first := uint64(0)
	for i := range all.targets[:all.n] {
		t := &c.r.targets[all.targets[i].pos]
		if all.targets[i].score > latest {
			continue
		}
		if int16(t.engineNumber)+1 == c.q.cached.placedMember {
			return t
		}
		if rank := splitmix64(key ^ t.rankHash); key != 0 && (best == nil || rank < first) {
			best, first = t, rank
		}
	}
	return best
}
