package chat

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBlotKeys(t *testing.T) {
	key := "sk-" + "proj-Ab3dEf6hIj9lMn2p"
	for text, want := range map[string]string{
		"Incorrect API key provided: " + key + ".":                "Incorrect API key provided: [key].",
		"key=" + key + ", 'model'":                                "key=[key], 'model'",
		"key:" + key + "|" + key:                                  "key:[key]|[key]",
		"sk-1234 is wrong":                                        "[key] is wrong",
		"the key sk-abcdefgh":                                     "the key [key]",
		"sk-ab**********yz":                                       "[key]",
		"token hf_" + strings.Repeat("aB3", 8):                    "token [key]",
		"AKIA" + "IOSFODNN7EXAMPLE and AIza" + "SyA1234567890abc": "[key] and [key]",
		"jwt eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln":      "jwt [key]",
		"Authorization: Bearer 0123456789abcdef0":                 "Authorization: Bearer [key]",
		"bearer \"0123456789abcdef0\"":                            "bearer \"[key]\"",

		"Bearer authentication is required":                "Bearer authentication is required",
		"task-1234 and risk-12345678, disk-full":           "task-1234 and risk-12345678, disk-full",
		"sk-learn was given, a sk-, sk- or sk-abc":         "sk-learn was given, a sk-, sk- or sk-abc",
		"install hf_transfer or use hf_hub_download_cache": "install hf_transfer or use hf_hub_download_cache",
		"deploy models eyJ AKIA AIza":                      "deploy models eyJ AKIA AIza",
	} {
		if got := ParseEngineError(400, "", []byte(text)).Message; got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if e := ParseEngineError(400, "", []byte(`{"error":{"message":"x","type":"t","code":"`+key+`"}}`)); e.Code != "" {
		t.Errorf("a key is a code: %q", e.Code)
	}
}

func TestRename(t *testing.T) {
	for _, c := range []struct{ served, text, want string }{
		{"org/Private-7B", "The model `org/Private-7B` does not exist.", "The model `pub` does not exist."},
		{"org/Private-7B", "org/Private-7B: no such thing as org/Private-7B.", "pub: no such thing as pub."},
		{"org/Private-7B", "model=org/Private-7B,org/Private-7B;(org/Private-7B)", "model=pub,pub;(pub)"},
		{"org/Private-7B", "org/Private-7Bx my-org/Private-7B org/Private-7B-chat org/Private-7B.1 org/Private-7B:q4", "org/Private-7Bx my-org/Private-7B org/Private-7B-chat org/Private-7B.1 org/Private-7B:q4"},
		{"org/Private-7B", "\u00e4org/Private-7B and org/private-7b", "\u00e4org/Private-7B and org/private-7b"},
		{"llama3", "llama3.2 and llama3:8b, but llama3... and llama3", "llama3.2 and llama3:8b, but pub... and pub"},
		{"llama3", "llama3llama3 llama3", "llama3llama3 pub"},
		{"a", "a model 'a' takes a prompt", "a model 'a' takes a prompt"},
		{"it", "it is 'it'", "it is 'it'"},
		{"model", "the model \"model\" is no model of `model`", "the model \"pub\" is no model of `pub`"},
		{"model", "model' 'model", "model' 'model"},
		{"4096", "at most 4096 tokens in '4096'", "at most 4096 tokens in 'pub'"},
		{"pub", "pub 'pub'", "pub 'pub'"},
		{"", "nothing", "nothing"},
	} {
		e := EngineError{Message: c.text}
		if e.Rename(c.served, "pub"); e.Message != c.want {
			t.Errorf("%q in %q: %q, want %q", c.served, c.text, e.Message, c.want)
		}
	}
	e := EngineError{Message: strings.Repeat("x-1 ", maxMessage/4)}
	if e.Rename("x-1", strings.Repeat("\u00e4", 100)); len(e.Message) > maxMessage || !utf8.ValidString(e.Message) {
		t.Errorf("%d bytes", len(e.Message))
	}
}
