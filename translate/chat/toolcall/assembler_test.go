package toolcall

import (
	"fmt"
	"strings"
	"testing"

	"penstock/translate/jsonx"
)

func parsePiece(t testing.TB, text string) *ToolCallPiece {
	t.Helper()
	var (
		d jsonx.Doc
		p ToolCallPiece
	)
	if err := d.Parse([]byte(text), jsonx.Options{Record: 3}); err != nil || !p.Read(d.Root()) {
		t.Fatalf("Read of %s = %v, want success", text, err)
	}
	return &p
}

// TestPiece checks what each piece contributes. Each case lists the pieces of one choice: index
// (- if absent), id, name and arguments. For each piece, want lists the position and the
// contribution:
//   - h: no contribution yet
//   - i: the piece's id
//   - I: an id from the edge
//   - n: the piece's name
//   - t: a type from the edge
func TestPiece(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"by the book":                       {[]string{"0 a f .", "0 . . {", "1 b g .", "0 . . }", "1 . . {}"}, "0int 0 1int 0 1"},
		"index left out":                    {[]string{"- a f {", "- . . }", "- b f {}"}, "0int 0 1int"},
		"index 0, ids differ":               {[]string{"0 a f .", "0 b f ."}, "0int 1int"},
		"index 0, ids differ, cut":          {[]string{"0 a f {", "0 . . 1", "0 b f {}"}, "0int 0 1int"},
		"index 0, another name":             {[]string{"0 . f {", "0 . g {"}, "0Int 1Int"},
		"index 0, whole objects":            {[]string{"0 . f {}", "0 . f {}"}, "0Int 1Int"},
		"index 0, name before the object":   {[]string{"0 . f {}", "0 . f .", "0 . . {}"}, "0Int 1Int 1"},
		"name in each piece":                {[]string{"0 a f .", "0 . f {", "0 . f }", "0 . f ."}, "0int 0 0 0"},
		"a new id for each piece":           {[]string{"0 a f .", "0 b f {", "0 c f }", "0 d f ."}, "0int 0 0 0"},
		"ids tell apart what indexes mix":   {[]string{"0 a f {", "1 b f {", "0 b . }", "1 a . }"}, "0int 1int 1 0"},
		"indexes anew":                      {[]string{"0 a f {}", "1 b g {}", "0 c f {}", "1 d g {}"}, "0int 1int 2int 3int"},
		"one id for two":                    {[]string{"0 a f {}", "1 a f {}"}, "0int 1Int"},
		"one id for two, no index":          {[]string{"- a f {}", "- a f {}"}, "0int 1Int"},
		"counts as ids":                     {[]string{"0 0 f {}", "1 1 f {}"}, "0Int 1Int"},
		"an id that comes too late":         {[]string{"0 . f .", "0 a . {}"}, "0Int 0"},
		"an id that comes first":            {[]string{"0 a . .", "0 . f {}"}, "0i 0nt"},
		"indexes with holes, out of order":  {[]string{"7 a f {}", "3 b g {}", "7 . . ."}, "0int 1int 0"},
		"an index that no position is":      {[]string{"-5 a f {", "-5 . . }", "99999999999 b g {}"}, "0int 0 1int"},
		"a name in two pieces":              {[]string{"0 a look_ .", "0 . up .", "0 . . {}"}, "0h 0int 0"},
		"a name that grows":                 {[]string{"0 a look_ .", "0 a look_up ."}, "0h 0int"},
		"a name in two, id in each":         {[]string{"0 a lo .", "0 a ok_ .", "0 a up {"}, "0h 0h 0int"},
		"a name in two, without ids":        {[]string{"- . look_ .", "- . at {}"}, "0h 0Int"},
		"a beginning that is a tool":        {[]string{"0 a look_up .", "0 . _all ."}, "0int 1Int"},
		"a beginning that is meant":         {[]string{"0 a look_ .", "0 . . {}"}, "0h 0int"},
		"a beginning with arguments":        {[]string{"0 a look_ {}", "0 . up {}"}, "0int 1Int"},
		"a beginning, another id":           {[]string{"0 a look_ .", "0 b up ."}, "0h <0in 1int"},
		"a beginning, another name":         {[]string{"0 a look_ .", "0 . f ."}, "0h <0in 1Int"},
		"a beginning, another index":        {[]string{"0 a look_ .", "1 b f ."}, "0h <0in 1int"},
		"a nameless piece of another index": {[]string{"0 a f {}", "1 . . {}"}, "0int 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Assembler
			a.SetToolNames(ToolNames("f\x00look_up\x00look_at\x00look_up_all\x00"))
			var got []string
			for _, text := range c.pieces {
				f := strings.Fields(strings.ReplaceAll(text, ".", "\x00"))
				for i := range f {
					f[i] = strings.ReplaceAll(f[i], "\x00", "")
				}
				members := fmt.Sprintf(`"id":%q,"function":{"name":%q,"arguments":%q}`, f[1], f[2], f[3])
				if f[0] != "-" {
					members = `"index":` + f[0] + "," + members
				}
				part, ok := a.AddPiece(0, parsePiece(t, "{"+members+"}"))
				if !ok {
					t.Fatal("refused")
				}
				for _, b := range part.Before {
					if got = append(got, fmt.Sprintf("<%din", b.Position)); !b.TakeID || !b.TakeName {
						t.Errorf("got %+v before the piece, want it to take id and name", b)
					}
				}
				said := fmt.Sprint(part.Position)
				for _, m := range []struct {
					on   bool
					text string
				}{{part.Hold, "h"}, {part.TakeID, "i"}, {part.MakeID, "I"}, {part.TakeName, "n"}, {part.NeedType, "t"}} {
					if m.on {
						said += m.text
					}
				}
				if part.ContributesOnce() != (len(said) > 1 && !part.Hold) {
					t.Errorf("%s: ContributesOnce = %v, want %v", said, part.ContributesOnce(), !part.ContributesOnce())
				}
				got = append(got, said)
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestChoices checks that the tool calls of different choices do not affect each other.
func TestChoices(t *testing.T) {
	var a Assembler
	for _, c := range []struct{ choice, want int }{{0, 0}, {1, 0}, {0, 1}, {1, 1}} {
		if part, _ := a.AddPiece(c.choice, parsePiece(t, `{"function":{"name":"f","arguments":"{}"}}`)); part.Position != c.want {
			t.Errorf("choice %d: position %d, want %d", c.choice, part.Position, c.want)
		}
	}
	a.Reset()
	if part, _ := a.AddPiece(0, parsePiece(t, `{"function":{"name":"f"}}`)); part.Position != 0 {
		t.Errorf("position %d behind Reset", part.Position)
	}
}

// TestBounds checks that the memory for tool calls is limited.
func TestBounds(t *testing.T) {
	var a Assembler
	p := parsePiece(t, `{"function":{"name":"f","arguments":"{}"}}`)
	n := 0
	for choice := range 8 {
		for i := 0; ; i++ {
			if _, ok := a.AddPiece(choice, p); !ok {
				if i != MaxToolCallsPerChoice && n != MaxToolCallsPerAnswer {
					t.Fatalf("choice %d refuses tool call %d", choice, i)
				}
				break
			}
			n++
		}
	}
	if _, ok := a.AddMessageToolCall(9, p); ok || n != MaxToolCallsPerAnswer {
		t.Errorf("%d tool calls", n)
	}
	if a.Reset(); cap(a.toolCalls) > maxKeptToolCalls {
		t.Errorf("keeps room for %d", cap(a.toolCalls))
	}
}
