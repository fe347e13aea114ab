package profile

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// TestEngines checks that engines.json contains no misspelt member, which the decoder would ignore.
func TestEngines(t *testing.T) {
	var rows []map[string]any
	if err := json.Unmarshal(enginesJSON, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for name := range row {
			if _, ok := reflect.TypeFor[Profile]().FieldByName(name); !ok && name != "Of" {
				t.Errorf("%s: no such member: %s", row["Name"], name)
			}
		}
	}
	if len(rows) != len(ByName) {
		t.Errorf("%d rows make %d profiles", len(rows), len(ByName))
	}
	router, of := ByName["llamacpp-router"], ByName["llamacpp"]
	if router.Family != "llamacpp" || router.Idle != 5*time.Second || router.PerConn != of.PerConn || !router.Loads || of.Loads ||
		router.Unknown != UnknownModelRefused || of.Unknown != UnknownModelServed {
		t.Errorf("router = %+v, want llamacpp that loads models and refuses unknown ones", router)
	}
}

func TestIDForm(t *testing.T) {
	for form, want := range map[IDForm]string{
		{Form: "0"}:                                   "0",
		{Form: "chatcmpl-%d", Numbers: 1000}:          "chatcmpl-345",
		{Form: "%d", From: 1000000, Numbers: 1000000}: "1012345",
		{Form: "call_%.4s"}:                           "call_" + Hex32(12345)[:4],
	} {
		if got := form.FormatID(12345); got != want {
			t.Errorf("%+v: %s, want %s", form, got, want)
		}
	}
}
