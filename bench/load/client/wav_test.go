package client

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestSoundHead(t *testing.T) {
	wav := ToneWAV(0.01)
	list := slices.Concat(wav[:12], []byte("LIST\x03\x00\x00\x00abc\x00"), wav[12:])
	open := slices.Clone(wav)
	binary.LittleEndian.PutUint32(open[4:], 0xffffffff)
	binary.LittleEndian.PutUint32(open[40:], 0xffffffff)
	endless := binary.LittleEndian.AppendUint32([]byte("RIFF\xff\xff\xff\xffWAVELIST"), 0xffffffff)
	for name, c := range map[string]struct {
		file []byte
		want int // number of bytes up to and including the first audio; 0 if there is no audio
	}{
		"wav": {wav, 45}, "wav with a list": {list, 57}, "wav of unknown length": {open, 45}, "wav without samples": {wav[:44], 0},
		"mp3": {[]byte("\xff\xfb\x90\xc4"), 1}, "pcm that begins like it": {[]byte("RIFA"), 4}, "nothing": {nil, 0},
		"endless head": {append(endless, make([]byte, maxWAVHeader)...), maxWAVHeader + 1},
	} {
		for _, size := range []int{1, 7, 100000} {
			h, got := new(audioStartFinder), 0
			for at := 0; at < len(c.file) && got == 0; at += size {
				if end := min(at+size, len(c.file)); h.addPiece(c.file[at:end]) {
					got = end
				}
			}
			if c.want == 0 && got != 0 || c.want != 0 && (got < c.want || got >= c.want+size) {
				t.Errorf("%s in pieces of %d: sound after %d bytes, want %d", name, size, got, c.want)
			}
		}
	}
}
