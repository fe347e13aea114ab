package config

import "testing"

func TestLocal(t *testing.T) {
	src := Local([]LocalEngine{
		{URL: "http://127.0.0.1:8080", Engine: "llamacpp", Models: []LocalModel{{ID: "a:model/with#marks"}, {ID: " no good"}, {ID: "both"}, {ID: "ears", Kind: KindTranscription}}},
		{URL: "http://127.0.0.1:8000", Engine: "vllm", Models: []LocalModel{{ID: "both"}, {ID: "ears"}}},
	}, "sha256:0000000000000000000000000000000000000000000000000000000000000000")
	f, problems := ParseValid("local", src, Known{Engines: []string{"auto", "llamacpp", "vllm"}})
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, src)
	}
	if len(f.Models) != 3 || len(f.Models[1].Deployments) != 2 || f.Models[1].Kind != KindChat {
		t.Fatalf("models: %+v", f.Models)
	}
	if m := f.Models[2]; m.Kind != KindTranscription || len(m.Deployments) != 1 {
		t.Errorf("a model of two kinds: %+v", m)
	}
	if got, want := f.Models[0].ID, "a:model/with#marks"; got != want {
		t.Errorf("model id %q, want %q", got, want)
	}
}
