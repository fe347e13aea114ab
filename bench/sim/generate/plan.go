package generate

import (
	"strings"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
)

// ChoicePlan determines the text of one choice, token by token. It does not store text that its
// generators can produce when the text is due.
type ChoicePlan struct {
	think         textgen.Generator
	reasoningLeft int             // remaining tokens of reasoning
	thoughts      []textgen.Token // reasoning that replaces generated thoughts
	say           textgen.Generator
	wordsLeft     int             // remaining words
	fixedPieces   []profile.Piece // pieces that replace generated words
	Left          int             // remaining tokens
	Total         int             // total number of tokens
	Thought       int             // total number of reasoning tokens
	Finish        string
	Stopped       string // the stop string that ended the choice
	Opened        bool   // the first event has been sent
	Closed        bool   // finish_reason has been sent
}

// PlanChoice plans one choice of the response, which has at most limit tokens. If the final
// assistant message contains the start of the planned text, the plan continues after that start, as
// real models do.
func (d *Decoder) PlanChoice(q *Request, choice, limit int) ChoicePlan {
	if q.memory.partialAnswer != "" {
		whole := limit + len(q.memory.partialAnswer) // a token has at least one byte
		if s := d.planAnswer(q, q.memory.sum, choice, whole); s.skipPrefix(q.memory.partialAnswer) {
			return d.limitTokens(s, limit)
		}
	}
	return d.limitTokens(d.planAnswer(q, q.Prompt.FullHash(), choice, limit), limit)
}

// skipPrefix removes said, which the assistant has already said, from the start of the plan. It
// returns false if the plan starts with a different text.
func (s *ChoicePlan) skipPrefix(said string) bool {
	s.reasoningLeft, s.Left = 0, s.wordsLeft+len(s.fixedPieces)
	for said != "" {
		p, ok := s.Next()
		rest, begins := strings.CutPrefix(said, p.Text)
		if !ok || p.Kind != profile.PieceText || !begins {
			return false
		}
		said = rest
	}
	return true
}

// planAnswer plans a response to the prompt with the given hash.
func (d *Decoder) planAnswer(q *Request, sum uint64, choice, limit int) ChoicePlan {
	seed := textgen.MixHash(textgen.MixHash(sum, q.seed), uint64(choice)+1)
	s := ChoicePlan{
		think: textgen.New(textgen.MixHash(seed, 11)), say: textgen.New(textgen.MixHash(seed, 12)),
		reasoningLeft: q.reasoning, thoughts: q.memory.thoughts, Finish: "stop",
	}
	switch {
	case len(q.Calls) > 0:
		s.fixedPieces, s.Finish = d.callPieces(q.Calls), "tool_calls"
		if q.namesTool && d.Profile.Family == "vllm" || d.Profile.Family == "tgi" {
			s.Finish = "stop"
		}
	case d.Controls.Text != nil:
		s.fixedPieces = textPieces(textgen.SplitTokens(*d.Controls.Text))
	case q.hasFixed && d.Controls.Echo:
		s.fixedPieces = textPieces(textgen.SplitTokens(q.fixed))
	case q.hasFixed:
		s.fixedPieces = textPieces(textgen.Fragments(q.fixed, 4))
	default:
		s.wordsLeft = max(24+int(seed%80), q.minimum)
		switch {
		case d.Controls.Tokens >= 0:
			s.wordsLeft = d.Controls.Tokens
		case q.ignoreEnd:
			s.wordsLeft = max(0, limit-s.reasoningLeft)
		}
	}
	if len(q.stop) > 0 && len(q.Calls) == 0 {
		s.cutAtStop(q.stop, limit)
	}
	return s
}

func (d *Decoder) limitTokens(s ChoicePlan, limit int) ChoicePlan {
	s.Total = s.reasoningLeft + s.wordsLeft + len(s.fixedPieces)
	if s.Total > limit {
		s.Total, s.Finish, s.Stopped = limit, "length", ""
	}
	if d.Controls.Finish != "" {
		s.Finish = d.Controls.Finish
	}
	if d.Faults.Finish != "" {
		s.Finish = d.Faults.Finish
	}
	s.Left = s.Total
	s.Thought = min(s.reasoningLeft, s.Total)
	return s
}

func textPieces(ws []textgen.Token) []profile.Piece {
	ps := make([]profile.Piece, len(ws))
	for i, w := range ws {
		ps[i] = profile.Piece{Kind: profile.PieceText, Token: w}
	}
	return ps
}

// callPieces returns the pieces of the tool calls in the order in which they are sent.
func (d *Decoder) callPieces(calls []profile.ToolCall) []profile.Piece {
	var ps []profile.Piece
	if d.Profile.WholeTools || d.Faults.WholeCalls {
		for i := range calls {
			ps = append(ps, profile.Piece{Kind: profile.PieceCompleteCall, Call: i})
		}
		return ps
	}
	parts := make([][]profile.Piece, len(calls))
	longest := 0
	for i, c := range calls {
		parts[i] = []profile.Piece{{Kind: profile.PieceCallStart, Call: i}}
		if c.Head > 0 {
			parts[i] = append(parts[i], profile.Piece{Kind: profile.PieceCallName, Call: i})
		}
		for j, w := range textgen.Fragments(c.Args, 5) {
			if j == 0 && c.Head == 0 && d.Profile.MatchesAny("llamacpp tgi") { // sent together with the name
				parts[i][0].Token = w
				continue
			}
			parts[i] = append(parts[i], profile.Piece{Kind: profile.PieceCallArguments, Call: i, Token: w})
		}
		longest = max(longest, len(parts[i]))
	}
	if !d.Faults.Interwove {
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

// cutAtStop ends the text before the first stop string. To find that string, it must generate the
// text immediately.
func (s *ChoicePlan) cutAtStop(stops []string, limit int) {
	for ; s.wordsLeft > 0 && len(s.fixedPieces) < limit; s.wordsLeft-- {
		s.fixedPieces = append(s.fixedPieces, profile.Piece{Kind: profile.PieceText, Token: s.say.Next()})
	}
	var b strings.Builder
	for _, p := range s.fixedPieces {
		b.WriteString(p.Text)
	}
	all, at := b.String(), -1
	for _, stop := range stops {
		if i := strings.Index(all, stop); i >= 0 && (at < 0 || i < at) {
			at, s.Stopped = i, stop
		}
	}
	if at < 0 {
		return
	}
	s.wordsLeft = 0
	for i, n := 0, 0; i < len(s.fixedPieces); i++ {
		if n+len(s.fixedPieces[i].Text) >= at {
			rest := s.fixedPieces[i].Text[:at-n]
			s.fixedPieces[i].Token = textgen.NewToken(rest)
			s.fixedPieces = s.fixedPieces[:i+1]
			return
		}
		n += len(s.fixedPieces[i].Text)
	}
}

// Next returns the next token, or false at the end of the plan.
func (s *ChoicePlan) Next() (profile.Piece, bool) {
	if s.Left == 0 {
		return profile.Piece{}, false
	}
	s.Left--
	if s.reasoningLeft > 0 {
		s.reasoningLeft--
		if len(s.thoughts) > 0 {
			w := s.thoughts[0]
			s.thoughts = s.thoughts[1:]
			return profile.Piece{Kind: profile.PieceThought, Token: w}, true
		}
		return profile.Piece{Kind: profile.PieceThought, Token: s.think.Next()}, true
	}
	if len(s.fixedPieces) > 0 {
		p := s.fixedPieces[0]
		s.fixedPieces = s.fixedPieces[1:]
		return p, true
	}
	s.wordsLeft--
	return profile.Piece{Kind: profile.PieceText, Token: s.say.Next()}, true
}
