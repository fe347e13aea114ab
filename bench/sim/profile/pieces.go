package profile

import "penstock/bench/sim/textgen"

// PieceKind is the kind of output to which a token belongs: a text, a thought or a tool call.
type PieceKind uint8

// The kinds of pieces.
const (
	PieceText PieceKind = iota
	PieceThought
	PieceCall  // the start of a call: name and id
	PieceArgs  // a fragment of its arguments
	PieceWhole // a call with all its arguments
	PieceName  // later pieces of its name
)

// Piece is one token.
type Piece struct {
	Kind PieceKind
	Call int
	textgen.Word
}

// ToolCall is a tool call to be made.
type ToolCall struct {
	ID, Name, Args string
	Head           int // length of the name's first piece; 0: the name is one piece
}
