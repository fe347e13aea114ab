package workload

import (
	"strings"
	"testing"
	"time"
)

func TestDatasets(t *testing.T) {
	share := `[{"id":"a","conversations":[{"from":"human","value":"hi there"},{"from":"gpt","value":"hello to you"},{"from":"human","value":"more"},{"from":"gpt","value":"x"}]},
		{"conversations":[{"from":"gpt","value":"alone"}]},{"conversations":[{"from":"human","value":"no reply"}]}]`
	d, err := parseDataset("sharegpt", []byte(share))
	if err != nil || len(d.entries) != 1 || len(d.entries[0].human) != 2 || d.entries[0].Out != 3 {
		t.Errorf("sharegpt = %+v, %v; want one entry with 2 turns and 3 tokens out", d, err)
	}
	d, err = parseDataset("custom", []byte("{\"prompt\":\"a\"}\n\n{\"prompt\":\"b\",\"output_len\":7}\n"))
	if err != nil || len(d.entries) != 2 || d.entries[1].Out != 7 {
		t.Errorf("custom = %+v, %v; want 2 entries, the second with 7 tokens out", d, err)
	}
	d, err = parseDataset("trace", []byte(`{"timestamp":1000,"input_length":600,"output_length":5,"hash_ids":[1,2]}
{"timestamp":2500,"input_length":700,"output_length":6,"hash_ids":[1,3]}`))
	if err != nil || len(d.entries) != 2 || d.entries[1].At != 1500*time.Millisecond || d.entries[1].Blocks[0] != 1 {
		t.Errorf("trace = %+v, %v; want 2 entries, the second at 1.5 s with block 1", d, err)
	}
	if _, err = parseDataset("trace", []byte(`{"timestamp":1700158546680,"input_length":1,"output_length":1}`)); err != nil {
		t.Errorf("Unix time: %v", err)
	}
}

func TestDatasetErrors(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"trace", `[{"timestamp":1}]`, "line 1"},
		{"trace", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":0,\"input_length\":1}", "line 2"},
		{"trace", "{\"timestamp\":9,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":1,\"input_length\":1,\"output_length\":1}", "line 2"},
		{"custom", "{\"prompt\":\"a\"}\n{\"prompt\":", "line 2"},
		{"custom", "{\"prompt\":7}", "line 1"},
		{"custom", "", "no custom entry"},
		{"sharegpt", "[", "line 1"},
		{"sharegpt", "[]", "no sharegpt entry"},
	} {
		if _, err := parseDataset(c.kind, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: got %v, want %q", c.kind, c.text, err, c.want)
		}
	}
}

func FuzzDataset(f *testing.F) {
	f.Add("trace", []byte(`{"timestamp":1,"input_length":2,"output_length":3,"hash_ids":[4]}`))
	f.Add("trace", []byte("{\"format\":1}\n{\"s\":\"a\",\"i\":0,\"t\":0,\"in\":640,\"out\":5,\"sys\":600}\n{\"s\":\"a/1\",\"i\":0,\"t\":1,\"in\":640,\"out\":5}"))
	f.Add("sharegpt", []byte(`[{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}]`))
	f.Add("custom", []byte("{\"prompt\":\"a\"}\n{\"prompt\":\"b\",\"output_len\":3}"))
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		switch kind {
		case "trace", "sharegpt", "custom":
		default:
			return
		}
		d, err := parseDataset(kind, text)
		if (err == nil) == (d == nil) {
			t.Fatalf("data set %v, error %v", d, err)
		}
		if err != nil {
			return
		}
		before := time.Duration(0)
		for i, e := range d.entries {
			if kind == "trace" && e.After >= i || len(e.Blocks) > 0 && kind != "trace" {
				t.Fatalf("entry %d = %+v, want blocks and earlier turns in a trace alone", i, e)
			}
			if e.After < 0 && e.At < before || kind == "trace" && e.In < 1 || kind != "trace" && len(e.human) == 0 || e.Out < 0 {
				t.Fatalf("entry = %+v, want times in order, a prompt and no negative length", e)
			}
			before = max(before, e.At)
		}
	})
}

func FuzzLength(f *testing.F) {
	f.Add("512")
	f.Add("uniform:10-20")
	f.Add("lognormal:512,0.8")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLength(text)
		if err != nil {
			return
		}
		w := &Workload{spec: &Spec{}}
		for n := range 20 {
			if v := l.draw(w.SessionRand(n)); v < 1 {
				t.Fatalf("length %q drew %d, want 1 or more", text, v)
			}
		}
	})
}

// TestLengthsAreReadAgain checks that the text form of a length can be parsed again.
func TestLengthsAreReadAgain(t *testing.T) {
	for _, s := range []string{"512", "uniform:100-900", "lognormal:512,0.8"} {
		if l, err := ParseLength(s); err != nil || l.String() != s {
			t.Errorf("ParseLength(%q) = %q, %v; want the same text", s, l, err)
		}
	}
}
