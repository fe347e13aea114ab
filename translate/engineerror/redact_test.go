package engineerror

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
		"token hf_" + strings.Repeat("aBcDe", 7) + " is wrong":    "token [key] is wrong",
		"gsk_" + strings.Repeat("qwerty", 8):                      "[key]",
		"Slack xoxb-" + "1234567890-abcdef":                       "Slack [key]",
		"Authorization: Basic dXNlcjpwYXNzd29yZA==":               "Authorization: Basic [key]==",
		"Basic dX+lcjpwYXN/d29yZA":                                "Basic [key]",
		"Authorization: Basic dXNlcjpw":                           "Authorization: Basic [key]",
		"X-Api-Key=ABCDEFGH12345678 was sent":                     "X-Api-Key=[key] was sent",
		"api_key: 0123456789abcdef0123456789abcdef":               "api_key: [key]",
		"api_key:0123456789abcdef0123456789abcdef.":               "api_key:[key].",
		"got {'api-key': 'qwertyuiopasdfghjklzxcvb'}":             "got {'api-key': '[key]'}",
		"bearer: abcdefghijklmnopqrst":                            "bearer: [key]",
		"ACCESS_TOKEN=aBcDeFgHiJ":                                 "ACCESS_TOKEN=[key]",
		"key sk-\u200bAb3dEf6hIj9 here":                           "key [key] here",
		"hf_\u2060" + strings.Repeat("aB3", 8):                    "[key]",

		"the token: unexpected, token 'authentication' at 12345": "the token: unexpected, token 'authentication' at 12345",
		"Basic authentication failed, password is too-short":     "Basic authentication failed, password is too-short",
		"Invalid api_key: authentication_required":               "Invalid api_key: authentication_required",
		"Unexpected token: 1234567 and secret: ''":               "Unexpected token: 1234567 and secret: ''",
		"Bearer authentication is required":                      "Bearer authentication is required",
		"task-1234 and risk-12345678, disk-full":                 "task-1234 and risk-12345678, disk-full",
		"sk-learn was given, a sk-, sk- or sk-abc":               "sk-learn was given, a sk-, sk- or sk-abc",
		"install hf_transfer or use hf_hub_download_cache":       "install hf_transfer or use hf_hub_download_cache",
		"deploy models eyJ AKIA AIza":                            "deploy models eyJ AKIA AIza",
	} {
		if got := ParseErrorBody(400, "", []byte(text)).Message; got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if e := ParseErrorBody(400, "", []byte(`{"error":{"message":"x","type":"t","code":"`+key+`"}}`)); e.Code != "" {
		t.Errorf("a key is a code: %q", e.Code)
	}
}

// TestRedact checks that the edge's key is removed, whatever its format.
func TestRedact(t *testing.T) {
	const key = "correct horse+battery/staple"
	for text, want := range map[string]string{
		"Invalid key '" + key + "', not " + key + ".": "Invalid key '[key]', not [key].",
		"the message ends in " + key[:len(key)-3]:     "the message ends in [key]",
		"correct": "correct",
		"":        "",
	} {
		e := Error{Message: text, Code: key}
		if e.RedactSecret(key); e.Message != want || e.Code != "" {
			t.Errorf("%q becomes %q, code %q", text, e.Message, e.Code)
		}
	}
	e := Error{Message: "the list is EMPTY"}
	if e.RedactSecret("EMPTY"); e.Message != "the list is EMPTY" {
		t.Errorf("a word is a key: %q", e.Message)
	}
	if e.RedactSecret(""); e.Message != "the list is EMPTY" {
		t.Errorf("nothing is a key: %q", e.Message)
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
		e := Error{Message: c.text}
		if e.RenameModel(c.served, "pub"); e.Message != c.want {
			t.Errorf("%q in %q: %q, want %q", c.served, c.text, e.Message, c.want)
		}
	}
	e := Error{Message: strings.Repeat("x-1 ", maxMessageBytes/4)}
	if e.RenameModel("x-1", strings.Repeat("\u00e4", 100)); len(e.Message) > maxMessageBytes || !utf8.ValidString(e.Message) {
		t.Errorf("got %d bytes, want at most %d of valid UTF-8", len(e.Message), maxMessageBytes)
	}
}

// TestRedactHosts checks that host names in private networks are removed, and that names of models,
// files and modules are kept.
func TestRedactHosts(t *testing.T) {
	for text, want := range map[string]string{
		"ask gpu7.rack.local":                    "ask [address]",
		"secret host 'gpu7.internal', sorry":     "secret host '[address]', sorry",
		"at vllm-0.vllm.default.svc.":            "at [address]",
		"no route to nas.home":                   "no route to [address]",
		"NODE-7.Corp refused":                    "[address] refused",
		"llama-3.3-70b and config.json":          "llama-3.3-70b and config.json",
		"local .local a.locale torch.nn.modules": "local .local a.locale torch.nn.modules",
	} {
		if got := ParseErrorBody(400, "", []byte(text)).Message; got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
