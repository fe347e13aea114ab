package profile

import "penstock/bench/sim/textgen"

// PieceKind is the kind of output to which a token belongs: text, a thought or a tool call.
type PieceKind uint8

// Kinds of pieces.
const (
	PieceText PieceKind = iota
	PieceThought
	PieceCallStart     // start of a call: name and id
	PieceCallArguments // fragment of the arguments of a call
	PieceCompleteCall  // a complete call with all its arguments
	PieceCallName      // further piece of the name of a call
)

// Piece is one token.
type Piece struct {
	Kind PieceKind
	Call int
	textgen.Token
}

// ToolCall is a tool call that the model makes.
type ToolCall struct {
	ID, Name, Args string
	Head           int // length of the first piece of the name; 0 if the name is one piece
}
