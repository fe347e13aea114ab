package routing

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"penstock/upstreams"
)

// directory estimates which prompts a route's engines have cached, based on the prompts that the
// route has sent to them. For each engine, it stores the most recently read blocks, as many as fit
// in the engine's cache. A directory is bounded, survives reloads and is safe for concurrent use.
//
// One map contains the blocks of all engines, so one look-up shows how much of a prompt each engine
// has. For each engine, a list links its blocks in the order in which it read them. Within a
// prompt, the first block is the newest in the list. An engine therefore loses a prompt from the
// end, as real engines do, and always has a prefix of the prompt. A look-up uses binary search to
// find the positions where the set of engines changes, without visiting every block.
//
// Entries and links are stored in pages and refer to each other by index. There may be a million of
// them, and the garbage collector would have to scan pointers in every cycle.
type directory struct {
	mu      sync.RWMutex
	blocks  map[uint64]int32 // from a block's hash to the index of its entry
	entries pages[entry]
	links   pages[link]
	holds   [maxMembers]holding

	// numbers maps each upstream to its member number. The number stays the same while routes use
	// the upstream.
	numbers map[upstreams.ID]member
	ranks   map[uint64]member // the same members, by Target.rank
	// places contains the placements shared by the fleet's edges. It is nil if there is no store.
	places atomic.Pointer[Places]
}

const (
	// usualBlocks is how many blocks an engine is assumed to cache if its cache size is unknown:
	// about a million tokens.
	usualBlocks = 8 << 10
	// mostBlocks is the maximum number of blocks stored per engine: 32 MiB of prompts, which need 8
	// MB of memory.
	mostBlocks = 64 << 10
	// maxMembers is the maximum number of distinct members. In a larger route, some upstreams share
	// a number, so a conversation may go to the wrong upstream.
	maxMembers = 128
)

// member is an upstream's number. It is also the upstream's bit in members.
type member uint8

type members [maxMembers / 64]uint64

func (s *members) has(m member) bool { return s[m/64]>>(m%64)&1 != 0 }
func (s *members) add(m member)      { s[m/64] |= 1 << (m % 64) }
func (s *members) remove(m member)   { s[m/64] &^= 1 << (m % 64) }

// entry is a block that at least one engine has cached.
type entry struct {
	block uint64
	who   members
	next  uint64 // the block that first followed this one, or 0
	// session is the session of the newest prompt with this block. A conversation keeps its session
	// even if its history is edited.
	session uint64
	ways    uint32 // number of conversations that diverged at or after the block, not counting the first one
	forks   uint32 // number of prompts without a session that left the others right after this block
	ends    uint32 // number of prompts that ended at this block
	links   int32  // first link in the list of links, one for each engine that has the block
}

// link records that one engine has one block.
type link struct {
	entry        int32
	newer, older int32 // neighbours in the engine's list
	sibling      int32 // next link of the same entry
	read         uint32
	of           member
}

// holding describes one engine's blocks.
type holding struct {
	newest, oldest int32 // 0 if there are none; index 0 of links and entries is unused
	blocks         int
	most           int    // estimated number of blocks that fit in the engine's cache
	published      int    // reported capacity in blocks, or 0 if unknown
	misses         int    // number of consecutive prompts that were read recently but were not cached
	emptied        uint32 // upstreams.PromptCache.Emptied when the list started
	// fresh counts the blocks that were new to the engine. Its growth since a block was last read
	// shows how large the cache must be to still contain the block.
	fresh uint32
}

// crowds groups prefixes by the number of conversations that share them. part is the fraction of
// such a prefix that counts against an engine that does not have the prefix. It is below 1, because
// an engine that has read the prefix need not read it again for later conversations. A prefix that
// very many conversations share does not count at all, because at each engine only one conversation
// has to read it. Conversations are then spread evenly, even if the load alone would not spread
// them.
var crowds = [...]struct {
	ways uint32
	part float64
}{{16, 0}, {4, 1. / 2}, {0, 1}}

// If at least manyEnds prompts end in the same block, they belong to conversations that share a
// prefix and differ by less than a block. A smaller number may be short turns of one conversation.
const manyEnds = 16

// crowd returns the index in crowds for a prefix that is shared by the given number of
// conversations.
func crowd(ways uint32) uint8 {
	for i := range crowds {
		if ways >= crowds[i].ways {
			return uint8(i)
		}
	}
	return uint8(len(crowds) - 1)
}

// knowledge is what the directory knows about one prompt, whose prefix is divided into parts.
// Adjacent parts differ in which engines have them, or in how many conversations share them. From
// one part to the next, neither the engines nor the conversations increase in number.
type knowledge struct {
	n     int
	parts [maxParts]part
	// place is the member to which other edges last sent the conversation, plus one, or 0 if that
	// member is unknown.
	place int16
}

// maxParts is the maximum number of parts. Blocks after the last part are treated as if no engine
// had them.
const maxParts = 8

type part struct {
	to    int // number of blocks up to the end of the part
	who   members
	crowd uint8
}

// blocks returns how many leading blocks any engine has.
func (k *knowledge) blocks() int {
	if k.n == 0 {
		return 0
	}
	return k.parts[k.n-1].to
}

// own returns how many leading blocks are shared by many conversations. The blocks after these
// belong only to this conversation.
func (k *knowledge) own() int {
	for i := k.n - 1; i >= 0; i-- {
		if int(k.parts[i].crowd) < len(crowds)-1 {
			return k.parts[i].to
		}
	}
	return 0
}

// held returns how many leading blocks a member has, and how many known blocks it would have to
// read. Blocks shared by many conversations count only in part (see crowds).
func (k *knowledge) held(m member) (blocks int, missing float64) {
	for i := k.n - 1; i >= 0; i-- {
		p := &k.parts[i]
		if p.who.has(m) {
			return p.to, missing
		}
		from := 0
		if i > 0 {
			from = k.parts[i-1].to
		}
		missing += float64(p.to-from) * crowds[p.crowd].part
	}
	return 0, missing
}

// newDirectory returns a directory for the targets. If before, the route's previous directory, is
// not nil, newDirectory updates and returns it.
func newDirectory(targets []Target, before *directory, shared bool) (*directory, error) {
	d := before
	if d == nil {
		d = &directory{blocks: map[uint64]int32{}}
		d.entries.add() // index 0 means none
		d.links.add()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number(targets)
	if !shared {
		d.places.Store(nil)
	} else if d.places.Load() == nil {
		places, err := newPlaces()
		if err != nil {
			return nil, err
		}
		d.places.Store(places)
	}
	return d, nil
}

// number assigns a member number to every target. Known upstreams keep their numbers. It drops the
// blocks of upstreams that are no longer targets. The caller holds mu.
func (d *directory) number(targets []Target) {
	before := d.numbers
	d.numbers, d.ranks = map[upstreams.ID]member{}, map[uint64]member{}
	taken := make([]bool, maxMembers)
	for i := range targets {
		if m, ok := before[targets[i].Upstream.ID()]; ok {
			d.numbers[targets[i].Upstream.ID()], taken[m] = m, true
		}
	}
	for m := range d.holds {
		if !taken[m] {
			d.forget(member(m))
		}
	}
	next := 0
	for i := range targets {
		t := &targets[i]
		m, ok := d.numbers[t.Upstream.ID()]
		if !ok {
			for k := 0; k < maxMembers && taken[next%maxMembers]; k++ {
				next++
			}
			m = member(next % maxMembers)
			next++
			d.numbers[t.Upstream.ID()], taken[m] = m, true
		}
		t.member, t.rank, t.directory = m, xxhash.Sum64String(string(t.Upstream.ID())), d
		d.ranks[t.rank] = m
		if h := &d.holds[m]; h.most == 0 {
			h.most, h.emptied = usualBlocks, t.Upstream.Cache.Emptied()
		}
	}
}

// look stores in k what is known about a prompt. It first drops the blocks of engines that have
// lost their cache.
func (d *directory) look(blocks []uint64, targets []Target, k *knowledge) {
	k.n, k.place = 0, 0
	if len(blocks) == 0 {
		return
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for i := range targets {
		if t := &targets[i]; d.holds[t.member].emptied != t.Upstream.Cache.Emptied() {
			d.mu.RUnlock()
			d.empty(t)
			d.mu.RLock()
		}
	}
	for from := 0; from < len(blocks) && k.n < maxParts; {
		first := d.find(blocks[from])
		if first == nil {
			break
		}
		p := &k.parts[k.n]
		p.who, p.crowd = first.who, crowd(first.ways)
		like := func(at int) bool {
			e := d.find(blocks[at])
			return e != nil && e.who == p.who && crowd(e.ways) == p.crowd
		}
		low, high := from+1, len(blocks) // blocks before low belong to the part, and blocks from high on do not
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
		p.to, from = low, low
		k.n++
	}
	if k.blocks() == len(blocks) {
		if e := d.find(blocks[len(blocks)-1]); e.ends >= manyEnds {
			for i := range k.parts[:k.n] {
				k.parts[i].crowd = 0
			}
		}
	}
	if p := d.places.Load(); p != nil {
		d.placed(p, blocks, k)
	}
}

// add records that a member has the conversation and this many leading blocks. No other member may
// have more.
func (k *knowledge) add(blocks int, m member) {
	for i := range k.parts[:k.n] {
		k.parts[i].who.add(m)
	}
	if blocks > k.blocks() && k.n < maxParts {
		p := &k.parts[k.n]
		*p = part{to: blocks, crowd: uint8(len(crowds) - 1)}
		p.who.add(m)
		k.n++
	}
	k.place = int16(m) + 1
}

// find returns a block's entry, or nil. The caller holds mu.
func (d *directory) find(block uint64) *entry {
	if i, ok := d.blocks[block]; ok {
		return d.entries.at(i)
	}
	return nil
}

// age returns how many blocks a member's cache must be able to contain to have kept the block since
// it was last read.
func (d *directory) age(block uint64, m member) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if e := d.find(block); e != nil && e.who.has(m) {
		return int(d.holds[m].fresh - d.links.at(d.linkOf(e, m)).read)
	}
	return 0
}

// linkOf returns the index of a member's link to an entry that the member has. The caller holds mu.
func (d *directory) linkOf(e *entry, m member) int32 {
	i := e.links
	for d.links.at(i).of != m {
		i = d.links.at(i).sibling
	}
	return i
}

// learn records that a prompt was sent to an upstream, which therefore has its blocks. session is a
// hash of the prompt's session, or 0 if unknown. learn reports whether the prompt begins a
// conversation, that is, whether it shares at most a prefix with the earlier prompts.
func (d *directory) learn(blocks []uint64, t *Target, session uint64) (begins bool) {
	if len(blocks) == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resize(t)
	m := t.member
	all := blocks
	blocks = blocks[:min(len(blocks), max(1, d.holds[m].most))] // more blocks do not fit in the cache
	again, before := d.again(blocks, m, session)
	known := again // number of known blocks, and the session of the last one
	for i := len(blocks) - 1; i >= again; i-- {
		at, ok := d.blocks[blocks[i]]
		if !ok {
			at = d.entries.add()
			*d.entries.at(at) = entry{block: blocks[i]}
			d.blocks[blocks[i]] = at
			if i+1 < len(blocks) {
				d.entries.at(at).next = blocks[i+1]
			}
		} else if known == again {
			known, before = i+1, d.entries.at(at).session
		}
		d.entries.at(at).session = session
		d.hold(at, m)
	}
	if again > 0 && again < len(blocks) {
		d.again(blocks[:again], m, session)
	}
	if known == 0 {
		return true
	}
	if session != 0 && session == before {
		return false
	}
	return d.part(all, known, session == 0) || session != 0 && known < len(all)
}

// again finds the leading blocks that a member has read before in this order, and moves them to the
// front of the member's list. Each turn of a conversation repeats all earlier turns, so this is the
// usual case. It returns how many blocks it moved, and the session of the last of them. The caller
// holds mu.
func (d *directory) again(blocks []uint64, m member, session uint64) (n int, before uint64) {
	e := d.find(blocks[0])
	if e == nil || !e.who.has(m) {
		return 0, 0
	}
	h, first := &d.holds[m], d.linkOf(e, m)
	rest, n, before := d.renew(first, blocks, h.fresh, session)
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

// renew marks the leading blocks in the list, beginning at link next, as read by a session. It
// returns the first unmarked link (or 0), the number of marked blocks, and the previous session of
// the last one of these. The loop runs for every block of every turn, so it is kept simple. The
// caller holds mu.
func (d *directory) renew(next int32, blocks []uint64, fresh uint32, session uint64) (rest int32, n int, before uint64) {
	links, entries := d.links.all, d.entries.all
	for n < len(blocks) && next != 0 {
		l := links.at(next)
		e := entries.at(l.entry)
		if e.block != blocks[n] {
			break
		}
		before, e.session = e.session, session
		l.read, next = fresh, l.older
		n++
	}
	return next, n, before
}

// part records how a prompt continued after its known blocks. Without a session, the first prompt
// that leaves the others after a block may be the next turn of the same conversation: some clients
// replace the end of a prompt at every turn. Those turns diverge at a later block each time, whereas
// conversations that share a prefix all diverge at its end. The first prompt therefore counts only
// when a second one follows it. part reports whether earlier prompts continued differently. The
// caller holds mu.
func (d *directory) part(blocks []uint64, known int, nameless bool) (parted bool) {
	last := d.find(blocks[known-1])
	switch {
	case last == nil: // the whole prompt does not fit in the cache
	case known == len(blocks):
		last.ends++
	case last.next == 0:
		last.next = blocks[known]
	case last.next != blocks[known]:
		ways := uint32(1)
		if nameless {
			last.forks++
			ways = [...]uint32{0, 0, 2, 1}[min(last.forks, 3)]
		}
		if ways == 0 {
			return true
		}
		for _, b := range blocks[:known] {
			if e := d.find(b); e != nil {
				e.ways += ways
			}
		}
		return true
	}
	return false
}

// hold makes a block a member's newest block. If the member's cache is full, hold drops the
// member's oldest block. The caller holds mu.
func (d *directory) hold(at int32, m member) {
	h, e := &d.holds[m], d.entries.at(at)
	if e.who.has(m) {
		i := d.linkOf(e, m)
		d.links.at(i).read = h.fresh
		if i != h.newest {
			d.unlink(h, i)
			d.push(h, i)
		}
		return
	}
	h.fresh++
	i := d.links.add()
	*d.links.at(i) = link{entry: at, of: m, sibling: e.links, read: h.fresh}
	e.links = i
	e.who.add(m)
	d.push(h, i)
	for h.blocks++; h.blocks > max(1, h.most); {
		d.drop(h, h.oldest)
	}
}

func (d *directory) push(h *holding, i int32) {
	l := d.links.at(i)
	l.newer, l.older = 0, h.newest
	if h.newest != 0 {
		d.links.at(h.newest).newer = i
	} else {
		h.oldest = i
	}
	h.newest = i
}

func (d *directory) unlink(h *holding, i int32) {
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

// drop removes one block of a member. The caller holds mu.
func (d *directory) drop(h *holding, i int32) {
	l := d.links.at(i)
	d.unlink(h, i)
	h.blocks--
	e := d.entries.at(l.entry)
	to := &e.links
	for *to != i {
		to = &d.links.at(*to).sibling
	}
	*to = l.sibling
	e.who.remove(l.of)
	if e.links == 0 {
		delete(d.blocks, e.block)
		d.entries.free(l.entry)
	}
	d.links.free(i)
}

// forget removes all blocks of a member. The caller holds mu.
func (d *directory) forget(m member) {
	h := &d.holds[m]
	for h.oldest != 0 {
		d.drop(h, h.oldest)
	}
	*h = holding{}
}

// empty drops all blocks of a target, because its engine has restarted.
func (d *directory) empty(t *Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, published := d.holds[t.member].most, d.holds[t.member].published
	d.forget(t.member)
	d.holds[t.member] = holding{most: most, published: published, emptied: t.Upstream.Cache.Emptied()}
}

// resize updates how many blocks fit in a target's cache. The engine reports the size in tokens,
// and the bytes per token are learned. The caller holds mu.
func (d *directory) resize(t *Target) {
	h := &d.holds[t.member]
	token := t.Upstream.Averages.BytesPerToken()
	if token == 0 {
		token = usualToken
	}
	// Ignore small changes of the bytes per token.
	published := min(mostBlocks, int(float64(t.Upstream.Cache.Tokens())*token/blockBytes))
	if diff := published - h.published; diff > h.published/8 || -diff > h.published/8 {
		h.published, h.most = published, published
		if published == 0 {
			h.most = usualBlocks
		}
	}
}

// usualToken is the assumed number of bytes of prompt text per token until it is measured.
const usualToken = 4

const (
	// A difference between cached and expected tokens counts only if it is at least surprise, in
	// tokens. Small differences are normal, because an engine caches in blocks and omits the last
	// one.
	surprise = 1024
	// If missesAtOnce consecutive prompts were read recently but are missing, the whole cache
	// counts as lost. An operator may have reset it, for example.
	missesAtOnce = 3
)

// counted compares how many tokens of a prompt were cached with how many were expected, given the
// prompt's age. The result adjusts the estimated size of the engine's cache. If a prompt is no
// longer cached, the cache must be smaller than the prompt's age. If the prompt is still cached,
// the cache must be somewhat larger than that age.
func (d *directory) counted(t *Target, expected, cached, age int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := &d.holds[t.member]
	ceiling := mostBlocks
	if h.published > 0 {
		ceiling = h.published
	}
	switch {
	case cached > expected+surprise:
		h.misses, h.most = 0, min(ceiling, h.most+h.most/16+1)
	case expected <= surprise:
	case 10*cached >= 9*expected:
		if h.misses = 0; 5*age > 4*h.most {
			h.most = min(ceiling, h.most+h.most/32+1)
		}
	case 2*cached < expected:
		if h.misses++; h.misses >= missesAtOnce && 4*age < h.most {
			most, published, emptied := h.most, h.published, h.emptied
			d.forget(t.member)
			*h = holding{most: most, published: published, emptied: emptied}
			return
		}
		if age < h.most {
			h.most = max(leastBlocks, h.most-(h.most-age)/8)
			for h.blocks > h.most {
				d.drop(h, h.oldest)
			}
		}
	}
}

// leastBlocks is the smallest cache size that is assumed. It is enough for a prompt of a few
// thousand tokens. With a smaller size, the directory could not detect that an engine's cache is
// larger.
const leastBlocks = 32

// pages stores items at stable indices. Items never move, so growth copies nothing.
type pages[T any] struct {
	all    filled[T]
	unused []int32
	n      int32
}

const pageSize = 1 << 10

type filled[T any] []*[pageSize]T

func (f filled[T]) at(i int32) *T { return &f[uint32(i)/pageSize][uint32(i)%pageSize] }

func (p *pages[T]) at(i int32) *T { return p.all.at(i) }

// add returns the index of an unused item.
func (p *pages[T]) add() int32 {
	if last := len(p.unused) - 1; last >= 0 {
		i := p.unused[last]
		p.unused = p.unused[:last]
		return i
	}
	if p.n%pageSize == 0 {
		p.all = append(p.all, new([pageSize]T))
	}
	p.n++
	return p.n - 1
}

func (p *pages[T]) free(i int32) { p.unused = append(p.unused, i) }
