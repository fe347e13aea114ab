package sim

import (
	"math"
	"strings"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
)

// generationPlan is what one choice will say, token by token. It holds no text that its generators
// can make when it is due.
type generationPlan struct {
	think    textgen.Generator
	thinking int            // tokens of reasoning left
	thoughts []textgen.Word // said in place of words, before the answer
	say      textgen.Generator
	saying   int             // words left
	fixed    []profile.Piece // said in place of words
	left     int             // tokens left in all
	total    int             // tokens in all
	thought  int             // tokens of reasoning in all
	finish   string
	stopped  string // the stop string that ended it
	opened   bool   // its first event is out
	closed   bool   // its finish_reason is out
}

// newScript plans the answer of one choice; limit is the most tokens that fit. An answer that the
// request has begun with what would be said is gone on with, as models do.
func newScript(x *exchange, q *chatRequest, choice, limit int) generationPlan {
	if q.begun != "" {
		if s := planAnswer(x, q, q.sum, choice, math.MaxInt); s.pass(q.begun) {
			return s.within(x, limit)
		}
	}
	return planAnswer(x, q, q.prompt.Sum(), choice, limit).within(x, limit)
}

// pass takes what has been said out of the plan; false: something else has.
func (s *generationPlan) pass(said string) bool {
	s.thinking, s.left = 0, s.saying+len(s.fixed)
	for said != "" {
		p, ok := s.next()
		rest, begins := strings.CutPrefix(said, p.Text)
		if !ok || p.Kind != profile.PieceText || !begins {
			return false
		}
		said = rest
	}
	return true
}

// planAnswer plans an answer to the prompt with that sum.
func planAnswer(x *exchange, q *chatRequest, sum uint64, choice, limit int) generationPlan {
	seed := textgen.Mix(textgen.Mix(sum, q.seed), uint64(choice)+1)
	s := generationPlan{
		think: textgen.New(textgen.Mix(seed, 11)), say: textgen.New(textgen.Mix(seed, 12)),
		thinking: q.reasoning, thoughts: q.thoughts, finish: "stop",
	}
	switch {
	case len(q.calls) > 0:
		s.fixed, s.finish = callPieces(x, q.calls), "tool_calls"
		if q.named && x.p.Family == "vllm" || x.p.Family == "tgi" {
			s.finish = "stop"
		}
	case x.knobs.hasText:
		s.fixed = textPieces(textgen.Tokens(x.knobs.text))
	case q.hasFixed && x.knobs.echo:
		s.fixed = textPieces(textgen.Tokens(q.fixed))
	case q.hasFixed:
		s.fixed = textPieces(textgen.Fragments(q.fixed, 4))
	default:
		s.saying = max(24+int(seed%80), q.minimum)
		switch {
		case x.knobs.tokens >= 0:
			s.saying = x.knobs.tokens
		case q.ignoreEnd:
			s.saying = max(0, limit-s.thinking)
		}
	}
	if len(q.stop) > 0 && len(q.calls) == 0 {
		s.cutAt(q.stop, limit)
	}
	return s
}

// within ends the plan where the limit is.
func (s generationPlan) within(x *exchange, limit int) generationPlan {
	s.total = s.thinking + s.saying + len(s.fixed)
	if s.total > limit {
		s.total, s.finish, s.stopped = limit, "length", ""
	}
	if x.knobs.finish != "" {
		s.finish = x.knobs.finish
	}
	if x.t.Finish != "" {
		s.finish = x.t.Finish
	}
	s.left = s.total
	s.thought = min(s.thinking, s.total)
	return s
}

func textPieces(ws []textgen.Word) []profile.Piece {
	ps := make([]profile.Piece, len(ws))
	for i, w := range ws {
		ps[i] = profile.Piece{Kind: profile.PieceText, Word: w}
	}
	return ps
}

// callPieces is the order in which the calls are told.
func callPieces(x *exchange, calls []profile.ToolCall) []profile.Piece {
	var ps []profile.Piece
	if x.p.WholeTools || x.t.WholeCalls {
		for i := range calls {
			ps = append(ps, profile.Piece{Kind: profile.PieceWhole, Call: i})
		}
		return ps
	}
	parts := make([][]profile.Piece, len(calls))
	longest := 0
	for i, c := range calls {
		parts[i] = []profile.Piece{{Kind: profile.PieceCall, Call: i}}
		for j, w := range textgen.Fragments(c.Args, 5) {
			if j == 0 && x.p.Is("llamacpp tgi") { // the first fragment comes with the name
				parts[i][0].Word = w
				continue
			}
			parts[i] = append(parts[i], profile.Piece{Kind: profile.PieceArgs, Call: i, Word: w})
		}
		longest = max(longest, len(parts[i]))
	}
	if !x.t.Interwove {
		for _, p := range parts {
			ps = append(ps, p...)
		}
		return ps
	}
	for j := range longest {
		for _, p := range parts {
			if j < len(p) {
				ps = append(ps, p[j])
			}
		}
	}
	return ps
}

// cutAt ends the text before the first stop string in it. What comes before must be known for that,
// so it is made now.
func (s *generationPlan) cutAt(stops []string, limit int) {
	for ; s.saying > 0 && len(s.fixed) < limit; s.saying-- {
		s.fixed = append(s.fixed, profile.Piece{Kind: profile.PieceText, Word: s.say.Next()})
	}
	var b strings.Builder
	for _, p := range s.fixed {
		b.WriteString(p.Text)
	}
	all, at := b.String(), -1
	for _, stop := range stops {
		if i := strings.Index(all, stop); i >= 0 && (at < 0 || i < at) {
			at, s.stopped = i, stop
		}
	}
	if at < 0 {
		return
	}
	s.saying = 0
	for i, n := 0, 0; i < len(s.fixed); i++ {
		if n+len(s.fixed[i].Text) >= at {
			rest := s.fixed[i].Text[:at-n]
			s.fixed[i].Word = textgen.NewWord(rest)
			s.fixed = s.fixed[:i+1]
			return
		}
		n += len(s.fixed[i].Text)
	}
}

// next is the next token; false: there is none.
func (s *generationPlan) next() (profile.Piece, bool) {
	if s.left == 0 {
		return profile.Piece{}, false
	}
	s.left--
	if s.thinking > 0 {
		s.thinking--
		if len(s.thoughts) > 0 {
			w := s.thoughts[0]
			s.thoughts = s.thoughts[1:]
			return profile.Piece{Kind: profile.PieceThought, Word: w}, true
		}
		return profile.Piece{Kind: profile.PieceThought, Word: s.think.Next()}, true
	}
	if len(s.fixed) > 0 {
		p := s.fixed[0]
		s.fixed = s.fixed[1:]
		return p, true
	}
	s.saying--
	return profile.Piece{Kind: profile.PieceText, Word: s.say.Next()}, true
}
