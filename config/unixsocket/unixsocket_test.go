package unixsocket_test

import (
	"io/fs"
	"strings"
	"testing"

	"penstock/config/unixsocket"
)

func TestListen(t *testing.T) {
	for address, want := range map[string]struct {
		file  string
		mode  fs.FileMode
		wrong string
	}{
		"unix:/run/edge.sock":      {file: "/run/edge.sock", mode: 0o660},
		"unix:///run/edge.sock":    {file: "/run/edge.sock", mode: 0o660},
		"unix:/run/edge.sock|0666": {file: "/run/edge.sock", mode: 0o666},
		"unix:/run/edge.sock|600":  {file: "/run/edge.sock", mode: 0o600},
		"unix:/run/edge.sock|rw":   {wrong: "in octal"},
		"unix:/run/edge.sock|":     {wrong: "in octal"},
		"unix:/run/edge.sock|1777": {wrong: "in octal"},
		"unix:/run/edge.sock|0444": {wrong: "anyone could connect"},
		"unix:edge.sock":           {wrong: "whole path"},
		"unix:@edge":               {wrong: "whole path"},
		"unix://run/edge.sock":     {wrong: "write unix:/run/edge.sock"},
		"unix:":                    {wrong: "whole path"},
		"unix:/":                   {wrong: "whole path"},
		"unix:/run/../edge.sock":   {wrong: "write unix:/edge.sock"},
		"unix:/run/a b":            {wrong: "blanks"},
		"unix:/run/a:b":            {wrong: "blanks or any of"},
		"unix:/" + strings.Repeat("a", unixsocket.MaxPathBytes()): {wrong: "has 108 bytes, and the system allows 107"},
	} {
		if want.wrong != "" && unixsocket.MaxPathBytes() != 107 {
			want.wrong = strings.Replace(want.wrong, "has 108 bytes, and the system allows 107", "the system allows", 1)
		}
		file, mode, err := unixsocket.ParseListen(address)
		switch {
		case want.wrong != "":
			if err == nil || !strings.Contains(err.Error(), want.wrong) {
				t.Errorf("%q: %v, want an error with %q", address, err, want.wrong)
			}
		case err != nil || file != want.file || mode != want.mode:
			t.Errorf("%q: %q, %o, %v", address, file, mode, err)
		}
	}
}

func TestURL(t *testing.T) {
	for address, want := range map[string]struct{ file, base, wrong string }{
		"unix:/run/vllm.sock":           {file: "/run/vllm.sock"},
		"unix:///run/vllm.sock":         {file: "/run/vllm.sock"},
		"unix:/run/vllm.sock:/":         {file: "/run/vllm.sock", base: "/"},
		"unix:/run/vllm.sock:/llama":    {file: "/run/vllm.sock", base: "/llama"},
		"unix:/run/vllm.sock:/llama/a/": {file: "/run/vllm.sock", base: "/llama/a/"},
		"unix:/run/vllm.sock:llama":     {wrong: "unix:/PATH:/BASE"},
		"unix:vllm.sock":                {wrong: "whole path"},
	} {
		file, base, err := unixsocket.ParseURL(address)
		switch {
		case want.wrong != "":
			if err == nil || !strings.Contains(err.Error(), want.wrong) {
				t.Errorf("%q: %v, want an error with %q", address, err, want.wrong)
			}
		case err != nil || file != want.file || base != want.base:
			t.Errorf("%q: %q, %q, %v", address, file, base, err)
		}
	}
}
