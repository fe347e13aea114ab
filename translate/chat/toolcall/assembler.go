package toolcall

import "cmp"

// Limits on tool calls. Beyond these AddPiece and AddWhole return false.
const (
	MaxPerChoice = 1024 // for each choice
	MaxPerAnswer = 4096 // for each answer
)

// Assembler decides to which tool call each piece in an answer belongs. The package documentation
// has the rules. The zero value is ready. An Assembler belongs to one answer at a time.
type Assembler struct {
	toolCalls []toolCall // of all choices, in order of appearance
	last      int        // the tool call of the last piece
	clock     uint32     // counts pieces

	names Names      // names of the offered tools
	held  []heldName // nearly always empty

	single bool // the request allows one tool call for each choice
	cut    bool // further tool calls were dropped
}

// toolCall is the state of one tool call.
type toolCall struct {
	choice, position int32

	index    int64 // the index in the latest piece that has one
	indexed  bool
	touched  uint32 // the clock at the latest piece
	id, name uint64 // hashes; 0: not known yet
	args     scanner

	filled     bool // the arguments are not blank
	identified bool // it has an id from the engine or from the edge
	typed      bool // it has a type
	nameless   bool // pieces without a name have arrived
	repeated   bool // the name has been repeated
	otherIDs   bool // some pieces had an id other than the first one's
}

// Part says what a piece contributes to its tool call.
type Part struct {
	Position int  // the tool call's position within its choice
	TakeID   bool // the piece's id becomes the tool call's
	MakeID   bool // the tool call gets an id from the edge; see AppendID
	TakeName bool // the piece's name becomes the tool call's
	NeedType bool // the tool call gets its name here and has no type yet
	Hold     bool // the piece yields nothing yet: its name waits for a continuation
	Joined   bool // the name had to wait
	Surplus  bool // the request does not allow this further tool call

	// ID and Name are the accepted id and name, as contents of JSON strings: the piece's own, or
	// the ones that had to wait.
	ID, Name []byte

	// Before holds names that waited in vain for a continuation, because the piece starts another
	// tool call.
	Before []Part
}

// Unique reports whether the piece contributes something that no later piece of its tool call can
// contribute. An identical later piece is then treated differently.
func (p *Part) Unique() bool { return p.TakeID || p.MakeID || p.TakeName || p.NeedType }

// keepToolCalls is the number of tool calls for which memory is kept for the next answer.
const keepToolCalls = 64

// Reset prepares a for another answer.
func (a *Assembler) Reset() {
	toolCalls := a.toolCalls[:0]
	if cap(toolCalls) > keepToolCalls {
		toolCalls = nil
	}
	*a = Assembler{toolCalls: toolCalls}
}

// Single marks every tool call of a choice but the first as Surplus, until Reset, because the
// request forbids parallel tool calls and not every engine obeys.
func (a *Assembler) Single(single bool) { a.single = single }

// Cut reports whether a tool call was Surplus.
func (a *Assembler) Cut() bool { return a.cut }

// AddPiece finds the tool call to which a piece of a delta belongs. It returns false if the piece
// starts a tool call beyond the limits.
func (a *Assembler) AddPiece(choice int, p *Piece) (Part, bool) {
	a.clock++
	id, name := hashOf(p.ID), hashOf(p.Name)
	index, indexed := p.Index.Int()
	if at := a.find(choice, index, indexed, id, name); at >= 0 {
		if !a.startsNewToolCall(at, p, id, name, indexed) {
			return a.add(at, p, id, name), true
		}
	}
	var before []Part
	if len(a.held) > 0 { // clients rely on the order of tool calls
		before = a.Release(choice)
	}
	part, ok := a.begin(choice, p, id, name)
	part.Before = before
	return part, ok
}

// AddWhole adds a complete tool call from a message. It returns false if the tool call is beyond
// the limits.
func (a *Assembler) AddWhole(choice int, p *Piece) (Part, bool) {
	a.clock++
	return a.begin(choice, p, hashOf(p.ID), hashOf(p.Name))
}

// find returns the tool call that a piece would continue, or -1 if there is none.
func (a *Assembler) find(choice int, index int64, indexed bool, id, name uint64) int {
	if len(a.toolCalls) == 0 {
		return -1
	}
	if t := &a.toolCalls[a.last]; t.is(choice) && (!indexed || t.indexed && t.index == index) && (id == 0 || t.id == id) {
		return a.last // true for nearly every piece
	}
	byIndex, byBoth, byID := -1, -1, -1
	for i := range a.toolCalls {
		t := &a.toolCalls[i]
		if !t.is(choice) {
			continue
		}
		same := id != 0 && t.id == id
		if same {
			byID = a.later(byID, i)
		}
		if !indexed || t.indexed && t.index == index {
			byIndex = a.later(byIndex, i)
			if same {
				byBoth = a.later(byBoth, i)
			}
		}
	}
	switch {
	case byBoth >= 0:
		return byBoth
	case byID >= 0 && (name == 0 || byIndex >= 0 || a.toolCalls[byID].args.open()):
		return byID // otherwise a new index starts a tool call; some engines repeat an id
	}
	return byIndex
}

// later returns the one of the tool calls i and j whose latest piece is newer. i may be -1.
func (a *Assembler) later(i, j int) int {
	if i >= 0 && a.toolCalls[i].touched > a.toolCalls[j].touched {
		return i
	}
	return j
}

func (t *toolCall) is(choice int) bool { return int(t.choice) == choice }

// startsNewToolCall reports whether a piece starts another tool call instead of continuing the one
// with the index at.
func (a *Assembler) startsNewToolCall(at int, p *Piece, id, name uint64, indexed bool) bool {
	if name == 0 {
		return false
	}
	t := &a.toolCalls[at]
	var args scanner
	args.add(p.Args)
	differ := id != 0 && t.id != 0 && id != t.id
	switch {
	case t.name == 0: // the name arrives late, or in pieces
		h := a.heldOf(at)
		return differ || h != nil && a.join(h.name, p.Name.Inside()) == nil
	case t.name != name:
		return true
	case t.args.whole() && args.begun():
		return true
	case differ && !indexed:
		return true
	case differ && t.nameless:
		return true
	case differ && t.args.open(), differ && !t.args.begun() && args.open(): // old vLLM, which sends no whole object
		return false
	case differ:
		return !t.otherIDs || args.begun()
	case id != 0 && id == t.id:
		return false
	case t.nameless:
		return true
	case t.args.open() && p.Args.IsObject(): // an object rather than a piece of a string
		return true
	}
	return t.args.whole() && !p.Args.HasText() && !a.repeats(t.choice)
}

// repeats reports whether the engine has repeated a name in a choice. If so, it may repeat the name
// again after the end of the arguments.
func (a *Assembler) repeats(choice int32) bool {
	for i := range a.toolCalls {
		if t := &a.toolCalls[i]; t.choice == choice && t.repeated {
			return true
		}
	}
	return false
}

// begin starts a tool call.
func (a *Assembler) begin(choice int, p *Piece, id, name uint64) (Part, bool) {
	position := int32(0)
	for i := len(a.toolCalls) - 1; i >= 0; i-- {
		if a.toolCalls[i].is(choice) {
			position = a.toolCalls[i].position + 1
			break
		}
	}
	if position == MaxPerChoice || len(a.toolCalls) == MaxPerAnswer {
		return Part{}, false
	}
	a.toolCalls = append(a.toolCalls, toolCall{choice: int32(choice), position: position})
	return a.add(len(a.toolCalls)-1, p, id, name), true
}

// add adds a piece to the tool call at.
func (a *Assembler) add(at int, p *Piece, id, name uint64) Part {
	t := &a.toolCalls[at]
	part := Part{Position: int(t.position), ID: textOf(p.ID), Name: textOf(p.Name)}
	a.last, t.touched = at, a.clock
	if index, indexed := p.Index.Int(); indexed {
		t.index, t.indexed = index, true
	}
	if a.single && t.position > 0 {
		part.Surplus, a.cut = true, true
		t.args.add(p.Args)
		t.id, t.name = cmp.Or(t.id, id), cmp.Or(t.name, name)
		return part
	}
	if len(a.names) > 0 && t.name == 0 {
		if part.Hold = a.hold(at, p, &part); part.Hold {
			if t.id == 0 {
				t.id = id
			}
			return part
		}
		if part.Joined {
			id, name = hash(part.ID), hash(part.Name)
			t.nameless = !p.Named() && p.Args.IsString()
		}
	}
	switch {
	case name == 0:
		t.nameless = t.nameless || p.Args.IsString()
	case t.name == 0:
		t.name, part.TakeName = name, true
	default:
		t.repeated = true
		t.otherIDs = t.otherIDs || id != 0 && t.id != 0 && id != t.id
	}
	t.filled = t.filled || p.Args.IsObject() || p.Args.IsString() && !Blank(p.Args.Inside())
	if !t.nameless { // once nameless, ids do not matter, and readers with a template omit them
		t.args.add(p.Args)
	}
	a.identify(at, &part, id)
	switch {
	case p.Type.HasText():
		t.typed = true
	case part.TakeName && !t.typed:
		t.typed, part.NeedType = true, true
	}
	return part
}

// identify decides whether the tool call with the index at gets the part's id or one from the edge.
func (a *Assembler) identify(at int, part *Part, id uint64) {
	t := &a.toolCalls[at]
	if !t.identified && (id != 0 || part.TakeName) {
		t.identified = true
		part.TakeID = id != 0 && !isCount(part.ID) && !a.idTaken(at, id)
		part.MakeID = !part.TakeID
	}
	if t.id == 0 {
		t.id = id
	}
}

// Any reports whether a choice has tool calls.
func (a *Assembler) Any(choice int) bool {
	for i := range a.toolCalls {
		if a.toolCalls[i].is(choice) {
			return true
		}
	}
	return false
}

// Blank reports whether the tool call of the last piece has only space as arguments so far.
func (a *Assembler) Blank() bool { return !a.toolCalls[a.last].filled }

// Fill appends the positions of a choice's tool calls whose arguments are blank. From then on these
// count as filled.
func (a *Assembler) Fill(positions []int, choice int) []int {
	for i := range a.toolCalls {
		if t := &a.toolCalls[i]; t.is(choice) && !t.filled && !(a.single && t.position > 0) {
			t.filled = true
			positions = append(positions, int(t.position))
		}
	}
	return positions
}

// idTaken reports whether another tool call of the choice has the id.
func (a *Assembler) idTaken(at int, id uint64) bool {
	for i := range a.toolCalls {
		if i != at && a.toolCalls[i].id == id && a.toolCalls[i].choice == a.toolCalls[at].choice {
			return true
		}
	}
	return false
}
