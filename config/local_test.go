package config

import "testing"

func TestLocal(t *testing.T) {
	src := Local([]LocalEngine{
		{URL: "http://127.0.0.1:8080", Engine: "llamacpp", Models: []string{"a:model/with#marks", " no good", "both"}},
		{URL: "http://127.0.0.1:8000", Engine: "vllm", Models: []string{"both"}},
	}, "sha256:0000000000000000000000000000000000000000000000000000000000000000")
	f, problems := ParseValid("local", src, Known{Engines: []string{"auto", "llamacpp", "vllm"}})
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, src)
	}
	if len(f.Models) != 2 || len(f.Models[1].Deployments) != 2 {
		t.Fatalf("models: %+v", f.Models)
	}
	if got, want := f.Models[0].ID, "a:model/with#marks"; got != want {
		t.Errorf("model id %q, want %q", got, want)
	}
}
