package realtime

import (
	"encoding/base64"
	"encoding/binary"

	"penstock/translate/apierr"
)

// AudioConverter converts a client's audio to the engine's format, in pieces. It is not safe for concurrent
// use.
type AudioConverter struct {
	resample bool
	odd      []byte // first byte of a sample whose second byte has not arrived
	filter   resampler
	raw      []byte
	samples  []int16
	out      []byte
}

// pieceBase64Len is the base64 length of a piece, which contains three quarters of a second at 24
// kHz.
const pieceBase64Len = 48 << 10

// CheckBase64 returns an error unless text is valid base64.
func CheckBase64(text []byte) *apierr.Error {
	wrong := apierr.Invalid("audio", apierr.CodeInvalidValue, "audio must be PCM in base64 (RFC 4648, 4), without line breaks.")
	n := len(text)
	if n%4 != 0 {
		return wrong
	}
	for i, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/':
		case c == '=' && i >= n-2 && (i == n-1 || text[n-1] == '='):
		default:
			return wrong
		}
	}
	return nil
}

// SendPieces splits text into pieces and calls send with a message for each piece. CheckBase64 must
// have accepted text.
func (a *AudioConverter) SendPieces(text []byte, send func(message []byte) error) error {
	for len(text) > 0 {
		piece := text[:min(len(text), pieceBase64Len)]
		text = text[len(piece):]
		if a.resample {
			if piece = a.convert(piece); len(piece) == 0 {
				continue
			}
		}
		a.out = append(append(append(a.out[:0], `{"type":"input_audio_buffer.append","audio":"`...), piece...), `"}`...)
		if err := send(a.out); err != nil {
			return err
		}
	}
	if cap(a.out) > 2*pieceBase64Len {
		a.out = nil
	}
	return nil
}

func (a *AudioConverter) convert(piece []byte) []byte {
	a.raw = append(a.raw[:0], a.odd...)
	a.raw, _ = base64.StdEncoding.AppendDecode(a.raw, piece) // CheckBase64 has accepted the text
	whole := len(a.raw) &^ 1
	a.odd = append(a.odd[:0], a.raw[whole:]...)
	in := a.samples[:0]
	for i := 0; i < whole; i += 2 {
		in = append(in, int16(binary.LittleEndian.Uint16(a.raw[i:])))
	}
	n := len(in)
	a.samples = a.filter.append(in, in)
	a.raw = a.raw[:0]
	for _, s := range a.samples[n:] {
		a.raw = binary.LittleEndian.AppendUint16(a.raw, uint16(s))
	}
	return base64.StdEncoding.AppendEncode(nil, a.raw)
}
