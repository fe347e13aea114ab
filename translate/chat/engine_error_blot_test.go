package chat

import (
	"strings"
	"testing"
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
