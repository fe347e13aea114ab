package websocket

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// These are the cases of Autobahn's fuzzing client for a server without compression, sections 2 to
// 7. The cases are rewritten, because the suite cannot be installed on the test machines. Where the
// suite expects an echo, these cases expect an answer.

// staysOpen, as a close code, means that the connection stays open.
const staysOpen = 0

// control returns the payload of a close frame.
func control(code int, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(code))) + reason
}

// probeMessage is a message whose response is an error that contains the message's text.
const probeMessage = `{"type":"response.steer","response_id":"✓ µ 😀"}`

func autobahn() map[string]autobahnCase {
	cases := map[string]autobahnCase{
		// 2: pings and pongs
		"2.1 a ping of nothing":             {frame(fin|opPing, ""), staysOpen, "pong:"},
		"2.2 a ping with a text":            {frame(fin|opPing, "Hello"), staysOpen, "pong:Hello"},
		"2.3 a ping of bytes":               {frame(fin|opPing, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff"), staysOpen, "pong:\x00\xff\xfe\xfd\xfc\xfb\x00\xff"},
		"2.4 a ping of 125":                 {frame(fin|opPing, strings.Repeat("\xfe", 125)), staysOpen, "pong:" + strings.Repeat("\xfe", 125)},
		"2.5 a ping of 126":                 {frame(fin|opPing, strings.Repeat("\xfe", 126)), 1002, ""},
		"2.7 a pong of nothing":             {frame(fin|opPong, ""), staysOpen, ""},
		"2.8 a pong with a text":            {frame(fin|opPong, "unsolicited"), staysOpen, ""},
		"2.9 a pong, a ping":                {frame(fin|opPong, "unsolicited") + frame(fin|opPing, "p"), staysOpen, "pong:p"},
		"2.10 ten pings":                    {strings.Repeat(frame(fin|opPing, "p"), 10), staysOpen, strings.Repeat("pong:p", 10)},
		"4.2 a reserved kind behind a text": {frame(fin|opText, probeMessage) + frame(fin|0xc, ""), 1002, "text"},

		// 5: fragments
		"5.1 a ping in two":                    {frame(opPing, "a") + frame(fin|opContinue, "b"), 1002, ""},
		"5.2 a pong in two":                    {frame(opPong, "a") + frame(fin|opContinue, "b"), 1002, ""},
		"5.3 a text in two":                    {frame(opText, probeMessage[:9]) + frame(fin|opContinue, probeMessage[9:]), staysOpen, "text"},
		"5.6 a text in two, a ping between":    {frame(opText, probeMessage[:9]) + frame(fin|opPing, "p") + frame(fin|opContinue, probeMessage[9:]), staysOpen, "pong:ptext"},
		"5.9 a continuation of nothing":        {frame(fin|opContinue, probeMessage) + frame(fin|opText, probeMessage), 1002, ""},
		"5.10 likewise, unfinished":            {frame(opContinue, probeMessage) + frame(fin|opText, probeMessage), 1002, ""},
		"5.15 a continuation behind the end":   {frame(opText, probeMessage[:9]) + frame(fin|opContinue, probeMessage[9:]) + frame(opContinue, "x"), 1002, "text"},
		"5.18 two beginnings":                  {frame(opText, "a") + frame(fin|opText, "b"), 1002, ""},
		"5.19 five pieces with pings":          {fivePieces(), staysOpen, "pong:1pong:2pong:3text"},
		"6.1 empty frames around a text":       {frame(opText, "") + frame(opContinue, probeMessage) + frame(fin|opContinue, ""), staysOpen, "text"},
		"6.2 a text of one byte a frame":       {bytewise(probeMessage), staysOpen, "text"},
		"6.23 what a reader must not take out": {frame(fin|opText, strings.Replace(probeMessage, "µ", "\ufffd\ufeff\u0085", 1)), staysOpen, "text"},

		// 7: closes
		"7.1.1 a text, a close":            {frame(fin|opText, probeMessage) + frame(fin|opClose, control(1000, "")), 1000, "text"},
		"7.1.2 two closes":                 {frame(fin|opClose, control(1000, "")) + frame(fin|opClose, control(1000, "")), 1000, ""},
		"7.1.3 a ping behind a close":      {frame(fin|opClose, control(1000, "")) + frame(fin|opPing, "p"), 1000, ""},
		"7.1.5 a close within a message":   {frame(opText, probeMessage[:9]) + frame(fin|opClose, control(1000, "")) + frame(fin|opContinue, probeMessage[9:]), 1000, ""},
		"7.3.1 a close of nothing":         {frame(fin|opClose, ""), 1005, ""},
		"7.3.2 a close of one byte":        {frame(fin|opClose, "a"), 1002, ""},
		"7.3.5 a close with 123 bytes":     {frame(fin|opClose, control(1000, strings.Repeat("*", 123))), 1000, ""},
		"7.3.6 a close with 124 bytes":     {frame(fin|opClose, control(1000, strings.Repeat("*", 124))), 1002, ""},
		"7.5.1 a close that is not UTF-8":  {frame(fin|opClose, control(1000, "\xce\xba\xe1\xbd\xb9\xed\xa0\x80")), 1007, ""},
		"7.5.2 a close that is cut within": {frame(fin|opClose, control(1000, "\xf0\x9f\x98")), 1007, ""},
		"7.5.3 likewise, within a message": {frame(opText, probeMessage[:9]) + frame(fin|opClose, control(1000, "\xff")), 1007, ""},
		"7.5.4 likewise, behind a text":    {frame(fin|opText, probeMessage) + frame(fin|opClose, control(4000, "\xff")), 1007, "text"},
		"7.5.5 a close in other letters":   {frame(fin|opClose, control(1000, "до свидания, 再见")), 1000, ""},

		// These cases are not in the suite. RFC 6455 (5.1, 5.2 and 5.5) requires 1002 for each of
		// them.
		"8.1 a ping without a mask":           {rig.WebSocketFrame(fin|opPing, "p", false), 1002, ""},
		"8.2 a close without a mask":          {rig.WebSocketFrame(fin|opClose, control(1000, ""), false), 1002, ""},
		"8.3 a text without a mask":           {rig.WebSocketFrame(fin|opText, probeMessage, false), 1002, ""},
		"8.4 a close in two":                  {frame(opClose, control(1000, "")[:1]) + frame(fin|opContinue, control(1000, "")[1:]), 1002, ""},
		"8.5 a close of 126":                  {frame(fin|opClose, control(1000, strings.Repeat("*", 124))), 1002, ""},
		"8.6 a close with a reserved bit":     {frame(fin|0x40|opClose, control(1000, "")), 1002, ""},
		"8.7 a pong of 126":                   {frame(fin|opPong, strings.Repeat("*", 126)), 1002, ""},
		"8.8 a length whose first bit is set": {string([]byte{fin | opPing, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}), 1002, ""},
	}
	for _, bits := range []byte{0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70} { // section 3: reserved bits
		cases[fmt.Sprintf("3 reserved bits %#x", bits)] = autobahnCase{frame(fin|bits|opText, probeMessage), 1002, ""}
		cases[fmt.Sprintf("3 reserved bits %#x of a ping", bits)] = autobahnCase{frame(fin|bits|opPing, ""), 1002, ""}
	}
	for _, kind := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} { // section 4: reserved opcodes
		cases[fmt.Sprintf("4 kind %d", kind)] = autobahnCase{frame(fin|kind, "x"), 1002, ""}
	}
	for i, text := range []string{ // section 6: sequences that are not UTF-8
		"\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80", "\xf7\xbf\xbf\xbf", "\xf8\x88\x80\x80\x80", "\xfe", "\xff", "\xce\xba\xe1\xbd", "\xed\xa0\x80\xed\xb0\x80",
	} {
		bad := strings.Replace(probeMessage, "µ", text, 1)
		cases[fmt.Sprintf("6 not UTF-8 %d", i)] = autobahnCase{frame(fin|opText, bad), 1007, ""}
		cases[fmt.Sprintf("6 not UTF-8 %d, one byte a frame", i)] = autobahnCase{bytewise(bad), 1007, ""}
	}
	// 7.7: valid close codes.
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		cases[fmt.Sprintf("7.7 a close by %d", code)] = autobahnCase{frame(fin|opClose, control(code, "")), code, ""}
	}
	// 7.9 and 7.13: invalid close codes.
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		cases[fmt.Sprintf("7.9 a close by %d", code)] = autobahnCase{frame(fin|opClose, control(code, "")), 1002, ""}
	}
	return cases
}

// autobahnCase contains the frames that the client sends, the expected close code, and the frames
// that the client must receive before the close.
type autobahnCase struct {
	sent  string
	code  int
	heard string
}

func bytewise(text string) string {
	var b strings.Builder
	first := byte(opText)
	for i := range len(text) - 1 {
		b.WriteString(frame(first, text[i:i+1]))
		first = opContinue
	}
	return b.String() + frame(fin|opContinue, text[len(text)-1:])
}

func fivePieces() string {
	return frame(opText, probeMessage[:5]) + frame(fin|opPing, "1") + frame(opContinue, probeMessage[5:10]) + frame(fin|opPing, "2") +
		frame(opContinue, "") + frame(opContinue, probeMessage[10:15]) + frame(fin|opPing, "3") + frame(fin|opContinue, probeMessage[15:])
}

// TestAutobahn runs each case on a separate connection.
func TestAutobahn(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for name, row := range autobahn() {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, p)
			_ = c.Send(row.sent)
			if row.code == staysOpen {
				_ = c.Send(frame(fin|opPing, "the end"))
			}
			heard := ""
			for {
				op, payload := c.next()
				switch {
				case op == opText && strings.Contains(payload, `"type":"response.steer.failed"`):
					heard += "text"
				case op == opText:
					t.Fatalf("%s", payload)
				case op == opPong && payload == "the end" && row.code == staysOpen:
					if heard != row.heard {
						t.Errorf("heard %q, want %q", heard, row.heard)
					}
					return
				case op == opPong:
					heard += "pong:" + payload
				case op == opClose:
					code := 1005
					if len(payload) >= 2 {
						code = int(binary.BigEndian.Uint16([]byte(payload)))
					}
					if code != row.code || heard != row.heard {
						t.Errorf("closed by %d behind %q, want %d behind %q", code, heard, row.code, row.heard)
					}
					// sent because the edge waits for a close frame
					_ = c.Send(frame(fin|opClose, ""))
					if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
						t.Errorf("not closed behind it: %q", rest)
					}
					return
				}
			}
		})
	}
}
