package routing

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"penstock/upstreams"
)

// prefixIndex estimates which prompts a route's engines have cached, based on the prompts that the
// route has sent to them. For each engine, it stores the most recently read blocks, as many as fit
// in the engine's cache. A prefixIndex is bounded, survives reloads and is safe for concurrent use.
//
// One map contains the blocks of all engines, so one look-up shows how much of a prompt each engine
// has. For each engine, a list links its blocks in the order in which they were read. Within a
// prompt, the first block is the newest in the list. A prompt is therefore evicted from its end, as
// in real engines, and what remains is always a prefix. A look-up uses binary search to find the
// positions where the set of engines changes, without visiting every block.
//
// Entries and links are stored in pages and refer to each other by index rather than by pointer.
// There may be a million of them, and the garbage collector would have to scan the pointers in
// every cycle.
type prefixIndex struct {
	mu           sync.RWMutex
	entryByBlock map[uint64]int32 // from a block's hash to the index of its entry
	entries      itemPages[blockEntry]
	links        itemPages[engineBlockLink]
	memberCaches [maxIndexedEngines]engineCache

	// memberByID maps each upstream to its member number. The number stays the same while routes
	// use the upstream.
	memberByID   map[upstreams.ID]engineNumber
	memberByRank map[uint64]engineNumber // the same members, by Target.rankHash
	// placements contains the placements shared by the fleet's edges. It is nil if there is no
	// store.
	placements atomic.Pointer[SharedPlacements]
}

const (
	// defaultCacheBlocks is how many blocks an engine is assumed to cache if its cache size is
	// unknown: about a million tokens.
	defaultCacheBlocks = 8 << 10
	// maxCacheBlocks is the maximum number of blocks stored per engine: 32 MiB of prompts, for
	// which the index needs 8 MB of memory.
	maxCacheBlocks = 64 << 10
	// maxIndexedEngines is the maximum number of distinct members. In a route with more upstreams,
	// some of them share a number, so a conversation may go to the wrong upstream.
	maxIndexedEngines = 128
)

// engineNumber is the number of an upstream, and of its bit in an engineSet.
type engineNumber uint8

type engineSet [maxIndexedEngines / 64]uint64

func (s *engineSet) has(m engineNumber) bool { return s[m/64]>>(m%64)&1 != 0 }
func (s *engineSet) add(m engineNumber)      { s[m/64] |= 1 << (m % 64) }
func (s *engineSet) remove(m engineNumber)   { s[m/64] &^= 1 << (m % 64) }

// blockEntry is a block that at least one engine has cached.
type blockEntry struct {
	block     uint64
	members   engineSet
	nextBlock uint64 // the block that first followed this one, or 0
	// session is the session of the newest prompt with this block. A conversation keeps its session
	// even if its history is edited.
	session     uint64
	branchCount uint32 // number of conversations that diverged at or after this block, not counting the first
	forkCount   uint32 // number of prompts without a session that diverged right after this block
	endCount    uint32 // number of prompts that ended with this block
	firstLink   int32  // first of the block's links, one for each engine that has the block
}

// engineBlockLink records that one engine has one block.
type engineBlockLink struct {
	entry        int32
	newer, older int32 // neighbours in the engine's list
	sibling      int32 // next link of the same entry
	readAt       uint32
	member       engineNumber
}

// engineCache tracks the blocks in one engine's cache.
type engineCache struct {
	newest, oldest int32 // links of the newest and the oldest block; 0 if there are no blocks
	blocks         int
	maxBlocks      int    // estimated number of blocks that fit in the engine's cache
	reportedBlocks int    // reported capacity in blocks, or 0 if unknown
	misses         int    // number of consecutive prompts that should have been cached but were not
	emptyCount     uint32 // upstreams.PromptCache.EmptiedCount when the list started
	// newBlocks counts the blocks that were new to the engine. The increase since a block was last
	// read shows how large the cache must be to still contain that block.
	newBlocks uint32
}

// sharingLevels groups prefixes by the number of conversations that share them (ways). part is the
// fraction of such a prefix that counts against an engine that has not cached the prefix. It is
// below 1 for shared prefixes, because an engine needs to read the prefix only once for all later
// conversations. A prefix shared by very many conversations does not count at all. Conversations
// are then spread evenly, even if the load alone would not spread them.
var sharingLevels = [...]struct {
	ways uint32
	part float64
}{{16, 0}, {4, 1. / 2}, {0, 1}}

// minSharedEndPrompts is the number of prompts that must end with the same block before they count
// as different conversations. Such conversations share a prefix and differ by less than a block.
// Fewer prompts may be short turns of one conversation.
const minSharedEndPrompts = 16

// sharingLevel returns the index in sharingLevels for a prefix that is shared by the given number
// of conversations.
func sharingLevel(ways uint32) uint8 {
	for i := range sharingLevels {
		if ways >= sharingLevels[i].ways {
			return uint8(i)
		}
	}
	return uint8(len(sharingLevels) - 1)
}

// cacheMatch is the result of a look-up of one prompt. The known prefix of the prompt is divided
// into parts. Adjacent parts differ in which engines have them, or in how many conversations share
// them. From one part to the next, the number of engines and the number of conversations never
// increase.
type cacheMatch struct {
	n     int
	parts [maxPrefixParts]prefixPart
	// placedMember is one more than the number of the member to which other edges last sent the
	// conversation, or 0 if that member is unknown.
	placedMember int16
}

// maxPrefixParts is the maximum number of parts of a cacheMatch. Blocks after the last part are
// treated as if no engine had them.
const maxPrefixParts = 8

type prefixPart struct {
	endBlock     int // number of the prompt's blocks up to the end of the part
	members      engineSet
	sharingLevel uint8
}

// knownBlockCount returns how many leading blocks any engine has.
func (k *cacheMatch) knownBlockCount() int {
	if k.n == 0 {
		return 0
	}
	return k.parts[k.n-1].endBlock
}

// sharedBlockCount returns how many leading blocks are shared by many conversations. The blocks
// after them belong only to this conversation.
func (k *cacheMatch) sharedBlockCount() int {
	for i := k.n - 1; i >= 0; i-- {
		if int(k.parts[i].sharingLevel) < len(sharingLevels)-1 {
			return k.parts[i].endBlock
		}
	}
	return 0
}

// cachedBlockCount returns how many leading blocks a member has. missing is how many of the other
// known blocks the member would have to read, where shared blocks count only in part (see
// sharingLevels).
func (k *cacheMatch) cachedBlockCount(m engineNumber) (blocks int, missing float64) {
	for i := k.n - 1; i >= 0; i-- {
		p := &k.parts[i]
		if p.members.has(m) {
			return p.endBlock, missing
		}
		from := 0
		if i > 0 {
			from = k.parts[i-1].endBlock
		}
		missing += float64(p.endBlock-from) * sharingLevels[p.sharingLevel].part
	}
	return 0, missing
}

// newPrefixIndex returns an index for the targets. If before, the route's previous index, is not
// nil, newPrefixIndex updates before and returns it.
func newPrefixIndex(targets []Target, before *prefixIndex, shared bool) (*prefixIndex, error) {
	d := before
	if d == nil {
		d = &prefixIndex{entryByBlock: map[uint64]int32{}}
		d.entries.allocIndex() // index 0 means none
		d.links.allocIndex()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.assignEngineNumbers(targets)
	if !shared {
		d.placements.Store(nil)
	} else if d.placements.Load() == nil {
		places, err := newPlacements()
		if err != nil {
			return nil, err
		}
		d.placements.Store(places)
	}
	return d, nil
}

// assignEngineNumbers assigns a member number to every target. Known upstreams keep their numbers.
// assignEngineNumbers drops the blocks of upstreams that are no longer targets. The caller must
// hold mu.
func (d *prefixIndex) assignEngineNumbers(targets []Target) {
	before := d.memberByID
	d.memberByID, d.memberByRank = map[upstreams.ID]engineNumber{}, map[uint64]engineNumber{}
	taken := make([]bool, maxIndexedEngines)
	for i := range targets {
		if m, ok := before[targets[i].Upstream.ID()]; ok {
			d.memberByID[targets[i].Upstream.ID()], taken[m] = m, true
		}
	}
	for m := range d.memberCaches {
		if !taken[m] {
			d.dropEngineCache(engineNumber(m))
		}
	}
	next := 0
	for i := range targets {
		t := &targets[i]
		m, ok := d.memberByID[t.Upstream.ID()]
		if !ok {
			for k := 0; k < maxIndexedEngines && taken[next%maxIndexedEngines]; k++ {
				next++
			}
			m = engineNumber(next % maxIndexedEngines)
			next++
			d.memberByID[t.Upstream.ID()], taken[m] = m, true
		}
		t.engineNumber, t.rankHash, t.prefixIndex = m, xxhash.Sum64String(string(t.Upstream.ID())), d
		d.memberByRank[t.rankHash] = m
		if h := &d.memberCaches[m]; h.maxBlocks == 0 {
			h.maxBlocks, h.emptyCount = defaultCacheBlocks, t.Upstream.Cache.EmptiedCount()
		}
	}
}

// lookUp stores in k which parts of a prompt are cached at which members. It first drops the blocks
// of engines that have lost their cache.
func (d *prefixIndex) lookUp(blocks []uint64, targets []Target, k *cacheMatch) {
	k.n, k.placedMember = 0, 0
	if len(blocks) == 0 {
		return
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for i := range targets {
		if t := &targets[i]; d.memberCaches[t.engineNumber].emptyCount != t.Upstream.Cache.EmptiedCount() {
			d.mu.RUnlock()
			d.resetEngineCache(t)
			d.mu.RLock()
		}
	}
	for from := 0; from < len(blocks) && k.n < maxPrefixParts; {
		first := d.findBlock(blocks[from])
		if first == nil {
			break
		}
		p := &k.parts[k.n]
		p.members, p.sharingLevel = first.members, sharingLevel(first.branchCount)
		like := func(at int) bool {
			e := d.findBlock(blocks[at])
			return e != nil && e.members == p.members && sharingLevel(e.branchCount) == p.sharingLevel
		}
		low, high := from+1, len(blocks) // blocks[:low] belong to the part, and blocks[high:] do not
		if low < high && like(high-1) {
			low = high
		}
		for low < high {
			if at := (low + high) / 2; like(at) {
				low = at + 1
			} else {
				high = at
			}
		}
		p.endBlock, from = low, low
		k.n++
	}
	if k.knownBlockCount() == len(blocks) {
		if e := d.findBlock(blocks[len(blocks)-1]); e.endCount >= minSharedEndPrompts {
			for i := range k.parts[:k.n] {
				k.parts[i].sharingLevel = 0
			}
		}
	}
	if p := d.placements.Load(); p != nil {
		d.applyPlacement(p, blocks, k)
	}
}

// addPlacement records that a member has the conversation and this many of its leading blocks. No
// other member may have more of them.
func (k *cacheMatch) addPlacement(blocks int, m engineNumber) {
	for i := range k.parts[:k.n] {
		k.parts[i].members.add(m)
	}
	if blocks > k.knownBlockCount() && k.n < maxPrefixParts {
		p := &k.parts[k.n]
		*p = prefixPart{endBlock: blocks, sharingLevel: uint8(len(sharingLevels) - 1)}
		p.members.add(m)
		k.n++
	}
	k.placedMember = int16(m) + 1
}

// findBlock returns a block's entry, or nil. The caller must hold mu.
func (d *prefixIndex) findBlock(block uint64) *blockEntry {
	if i, ok := d.entryByBlock[block]; ok {
		return d.entries.at(i)
	}
	return nil
}

// blockReuseDistance returns how many blocks must fit in a member's cache for the cache to still
// contain the block since the member last read it.
func (d *prefixIndex) blockReuseDistance(block uint64, m engineNumber) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if e := d.findBlock(block); e != nil && e.members.has(m) {
		return int(d.memberCaches[m].newBlocks - d.links.at(d.findEngineLink(e, m)).readAt)
	}
	return 0
}

// findEngineLink returns the index of the link between a member and an entry. The member must have
// the block. The caller must hold mu.
func (d *prefixIndex) findEngineLink(e *blockEntry, m engineNumber) int32 {
	i := e.firstLink
	for d.links.at(i).member != m {
		i = d.links.at(i).sibling
	}
	return i
}

// recordPrompt records that a prompt was sent to an upstream, which therefore has the prompt's
// blocks. session is a hash of the prompt's session, or 0 if unknown. begins reports whether the
// prompt begins a conversation, that is, whether it shares at most a prefix with earlier prompts.
func (d *prefixIndex) recordPrompt(blocks []uint64, t *Target, session uint64) (begins bool) {
	if len(blocks) == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resizeCache(t)
	m := t.engineNumber
	all := blocks
	blocks = blocks[:min(len(blocks), max(1, d.memberCaches[m].maxBlocks))] // the rest does not fit
	again, before := d.renewPrefix(blocks, m, session)
	known := again // number of known blocks
	for i := len(blocks) - 1; i >= again; i-- {
		at, ok := d.entryByBlock[blocks[i]]
		if !ok {
			at = d.entries.allocIndex()
			*d.entries.at(at) = blockEntry{block: blocks[i]}
			d.entryByBlock[blocks[i]] = at
			if i+1 < len(blocks) {
				d.entries.at(at).nextBlock = blocks[i+1]
			}
		} else if known == again {
			known, before = i+1, d.entries.at(at).session
		}
		d.entries.at(at).session = session
		d.markBlockNewest(at, m)
	}
	if again > 0 && again < len(blocks) {
		d.renewPrefix(blocks[:again], m, session)
	}
	if known == 0 {
		return true
	}
	if session != 0 && session == before {
		return false
	}
	return d.recordContinuation(all, known, session == 0) || session != 0 && known < len(all)
}

// renewPrefix finds the leading blocks that a member has already read in this order, and moves them
// to the front of the member's list. This case is the most common, because each turn of a
// conversation repeats all earlier turns. renewPrefix returns the number of moved blocks, and the
// session of the last of them. The caller must hold mu.
func (d *prefixIndex) renewPrefix(blocks []uint64, m engineNumber, session uint64) (n int, before uint64) {
	e := d.findBlock(blocks[0])
	if e == nil || !e.members.has(m) {
		return 0, 0
	}
	h, first := &d.memberCaches[m], d.findEngineLink(e, m)
	rest, n, before := d.markBlocksRead(first, blocks, h.newBlocks, session)
	if first != h.newest {
		f, last := d.links.at(first), h.oldest
		d.links.at(f.newer).older = rest
		if rest != 0 {
			r := d.links.at(rest)
			last, r.newer = r.newer, f.newer
		} else {
			h.oldest = f.newer
		}
		d.links.at(last).older, f.newer = h.newest, 0
		d.links.at(h.newest).newer = last
		h.newest = first
	}
	return n, before
}

// markBlocksRead marks the leading blocks in the list, beginning at link next, as read by a session. It
// returns the first unmarked link (or 0), the number of marked blocks, and the previous session of
// the last of these blocks. The loop runs for every block of every turn, so it must be simple. The
// caller must hold mu.
func (d *prefixIndex) markBlocksRead(next int32, blocks []uint64, fresh uint32, session uint64) (rest int32, n int, before uint64) {
	links, entries := d.links.pageList, d.entries.pageList
	for n < len(blocks) && next != 0 {
		l := links.at(next)
		e := entries.at(l.entry)
		if e.block != blocks[n] {
			break
		}
		before, e.session = e.session, session
		l.readAt, next = fresh, l.older
		n++
	}
	return next, n, before
}

// recordContinuation records how a prompt continues after its known blocks. parted reports whether
// earlier prompts continued differently. nameless means that the prompt has no session.
//
// The first nameless prompt that diverges after a block may be the next turn of the same
// conversation, because some clients replace the end of the prompt at every turn. Each of these
// turns diverges at a later block, whereas conversations that share a prefix all diverge at the end
// of that prefix. The first such prompt therefore counts only once a second prompt diverges at the
// same block. The caller must hold mu.
func (d *prefixIndex) recordContinuation(blocks []uint64, known int, nameless bool) (parted bool) {
	last := d.findBlock(blocks[known-1])
	switch {
	case last == nil: // the whole prompt does not fit in the cache
	case known == len(blocks):
		last.endCount++
	case last.nextBlock == 0:
		last.nextBlock = blocks[known]
	case last.nextBlock != blocks[known]:
		ways := uint32(1)
		if nameless {
			last.forkCount++
			ways = [...]uint32{0, 0, 2, 1}[min(last.forkCount, 3)]
		}
		if ways == 0 {
			return true
		}
		for _, b := range blocks[:known] {
			if e := d.findBlock(b); e != nil {
				e.branchCount += ways
			}
		}
		return true
	}
	return false
}

// markBlockNewest makes a block the newest block of a member. If the member's cache is full,
// markBlockNewest drops the member's oldest block. The caller must hold mu.
func (d *prefixIndex) markBlockNewest(at int32, m engineNumber) {
	h, e := &d.memberCaches[m], d.entries.at(at)
	if e.members.has(m) {
		i := d.findEngineLink(e, m)
		d.links.at(i).readAt = h.newBlocks
		if i != h.newest {
			d.unlinkBlock(h, i)
			d.pushBlock(h, i)
		}
		return
	}
	h.newBlocks++
	i := d.links.allocIndex()
	*d.links.at(i) = engineBlockLink{entry: at, member: m, sibling: e.firstLink, readAt: h.newBlocks}
	e.firstLink = i
	e.members.add(m)
	d.pushBlock(h, i)
	for h.blocks++; h.blocks > max(1, h.maxBlocks); {
		d.dropBlock(h, h.oldest)
	}
}

func (d *prefixIndex) pushBlock(h *engineCache, i int32) {
	l := d.links.at(i)
	l.newer, l.older = 0, h.newest
	if h.newest != 0 {
		d.links.at(h.newest).newer = i
	} else {
		h.oldest = i
	}
	h.newest = i
}

func (d *prefixIndex) unlinkBlock(h *engineCache, i int32) {
	l := d.links.at(i)
	if l.newer != 0 {
		d.links.at(l.newer).older = l.older
	} else {
		h.newest = l.older
	}
	if l.older != 0 {
		d.links.at(l.older).newer = l.newer
	} else {
		h.oldest = l.newer
	}
}

// dropBlock removes one block from a member's cache. The caller must hold mu.
func (d *prefixIndex) dropBlock(h *engineCache, i int32) {
	l := d.links.at(i)
	d.unlinkBlock(h, i)
	h.blocks--
	e := d.entries.at(l.entry)
	to := &e.firstLink
	for *to != i {
		to = &d.links.at(*to).sibling
	}
	*to = l.sibling
	e.members.remove(l.member)
	if e.firstLink == 0 {
		delete(d.entryByBlock, e.block)
		d.entries.freeIndex(l.entry)
	}
	d.links.freeIndex(i)
}

// dropEngineCache removes all blocks from a member's cache. The caller must hold mu.
func (d *prefixIndex) dropEngineCache(m engineNumber) {
	h := &d.memberCaches[m]
	for h.oldest != 0 {
		d.dropBlock(h, h.oldest)
	}
	*h = engineCache{}
}

// resetEngineCache removes all blocks from a target's cache, because the target's engine has
// restarted.
func (d *prefixIndex) resetEngineCache(t *Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, published := d.memberCaches[t.engineNumber].maxBlocks, d.memberCaches[t.engineNumber].reportedBlocks
	d.dropEngineCache(t.engineNumber)
	d.memberCaches[t.engineNumber] = engineCache{maxBlocks: most, reportedBlocks: published, emptyCount: t.Upstream.Cache.EmptiedCount()}
}

// resizeCache updates how many blocks fit in a target's cache. The engine reports the cache size in
// tokens, and the number of bytes per token is measured. The caller must hold mu.
func (d *prefixIndex) resizeCache(t *Target) {
	h := &d.memberCaches[t.engineNumber]
	token := t.Upstream.Averages.BytesPerToken()
	if token == 0 {
		token = defaultBytesPerToken
	}
	// Ignore small changes in the measured bytes per token.
	published := min(maxCacheBlocks, int(float64(t.Upstream.Cache.CapacityTokens())*token/blockBytes))
	if diff := published - h.reportedBlocks; diff > h.reportedBlocks/8 || -diff > h.reportedBlocks/8 {
		h.reportedBlocks, h.maxBlocks = published, published
		if published == 0 {
			h.maxBlocks = defaultCacheBlocks
		}
	}
}

// defaultBytesPerToken is the assumed number of bytes of prompt text per token until it is
// measured.
const defaultBytesPerToken = 4

const (
	// minTokenDifference is the smallest difference between cached and expected tokens that counts.
	// Small differences are normal, because engines cache whole blocks and omit the last block of a
	// prompt.
	minTokenDifference = 1024
	// If cacheLostMisses consecutive prompts should still be cached but are not, the whole cache
	// counts as lost. For example, an operator may have reset the cache.
	cacheLostMisses = 3
)

// adjustCacheSize adjusts the estimated size of an engine's cache. It compares the number of cached
// prompt tokens with the expected number. age is the prompt's age in blocks (see
// blockReuseDistance). If a prompt is no longer cached, the cache must be smaller than the prompt's
// age. If the prompt is still cached, the cache must be somewhat larger than that age.
func (d *prefixIndex) adjustCacheSize(t *Target, expected, cached, age int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := &d.memberCaches[t.engineNumber]
	ceiling := maxCacheBlocks
	if h.reportedBlocks > 0 {
		ceiling = h.reportedBlocks
	}
	switch {
	case cached > expected+minTokenDifference:
		h.misses, h.maxBlocks = 0, min(ceiling, h.maxBlocks+h.maxBlocks/16+1)
	case expected <= minTokenDifference:
	case 10*cached >= 9*expected:
		if h.misses = 0; 5*age > 4*h.maxBlocks {
			h.maxBlocks = min(ceiling, h.maxBlocks+h.maxBlocks/32+1)
		}
	case 2*cached < expected:
		if h.misses++; h.misses >= cacheLostMisses && 4*age < h.maxBlocks {
			most, published, emptied := h.maxBlocks, h.reportedBlocks, h.emptyCount
			d.dropEngineCache(t.engineNumber)
			*h = engineCache{maxBlocks: most, reportedBlocks: published, emptyCount: emptied}
			return
		}
		if age < h.maxBlocks {
			h.maxBlocks = max(minCacheBlocks, h.maxBlocks-(h.maxBlocks-age)/8)
			for h.blocks > h.maxBlocks {
				d.dropBlock(h, h.oldest)
			}
		}
	}
}

// minCacheBlocks is the smallest cache size that is assumed. It is enough for a prompt of a few
// thousand tokens. If a smaller size were assumed, adjustCacheSize could not detect that the
// engine's cache is larger.
const minCacheBlocks = 32

// itemPages stores items at stable indices. Items never move, so growth copies nothing.
type itemPages[T any] struct {
	pageList pageSlice[T]
	freeList []int32
	n        int32
}

const itemsPerPage = 1 << 10

type pageSlice[T any] []*[itemsPerPage]T

func (f pageSlice[T]) at(i int32) *T { return &f[uint32(i)/itemsPerPage][uint32(i)%itemsPerPage] }

func (p *itemPages[T]) at(i int32) *T { return p.pageList.at(i) }

// allocIndex returns the index of an unused item.
func (p *itemPages[T]) allocIndex() int32 {
	if last := len(p.freeList) - 1; last >= 0 {
		i := p.freeList[last]
		p.freeList = p.freeList[:last]
		return i
	}
	if p.n%itemsPerPage == 0 {
		p.pageList = append(p.pageList, new([itemsPerPage]T))
	}
	p.n++
	return p.n - 1
}

func (p *itemPages[T]) freeIndex(i int32) { p.freeList = append(p.freeList, i) }
