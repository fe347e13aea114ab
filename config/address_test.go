package config

import "testing"

func TestOnLoopback(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:4000": true, "127.9.9.9:0": true, "localhost:1": true, "[::1]:4000": true, "[::ffff:127.0.0.1]:1": true,
		":4000": false, "0.0.0.0:4000": false, "[::]:1": false, "10.0.0.1:1": false, "edge.internal:1": false,
		"127.0.0.1": false, "": false, "localhost.example.com:1": false,
	} {
		if got := OnLoopback(listen); got != want {
			t.Errorf("OnLoopback(%q) = %v, want %v", listen, got, want)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:4000": true, ":4000": true, "[::1]:0": true, "edge-1.internal:80": true, "[fe80::1%eth0]:80": true,
		"unix:/run/edge.sock": true, "unix:/run/edge.sock|0666": true, "unix:edge.sock": false, "unix:/run/edge.sock|x": false,
		"": false, "4000": false, "127.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:http": false, "300.0.0.1:80": false,
		"http://127.0.0.1:80": false, "::1:80": false, "a b:80": false, "127.0.0.1:-1": false,
	} {
		if err := checkListen(listen); (err == nil) != ok {
			t.Errorf("checkListen(%q) = %v, want success: %v", listen, err, ok)
		}
	}
}

func TestCheckBaseURL(t *testing.T) {
	for address, ok := range map[string]bool{
		"http://10.0.0.1:8000": true, "https://gpu.internal": true, "http://[::1]:8000": true, "http://gpu_1:80/engines/llama": true,
		"HTTP://gpu:1": true, "http://gpu:1/v10": true,
		"": false, "gpu:8000": false, "10.0.0.1:8000": false, "//gpu:1": false, "http://": false, "http://:8000": false, "http:gpu:1": false,
		"ftp://gpu": false, "unix:/run/gpu.sock": true, "unix:///run/gpu.sock": true, "unix:/run/gpu.sock:/llama": true,
		"unix:gpu.sock": false, "unix:/run/gpu.sock:/v1": false, "unix:/run/gpu.sock:/a%2f": false, "unix:/run/gpu.sock:llama": false,
		"http+unix://%2Frun%2Fgpu.sock": false, "http://unix:/run/gpu.sock": false, "/run/gpu.sock": false, "http://me@gpu": false, "http://me:pw@gpu": false, "http://gpu?x": false,
		"http://gpu?": false, "http://gpu#": false, "http://gpu:0": false, "http://gpu:": false, "http://gpu:99999": false,
		"http://gpu/v1": false, "http://gpu/api/v1/chat": false, "http://gpu//x": false, "http://gpu/../x": false, "http://gpu/%2e%2e": false,
		"http://g pu": false, "http://gpu/\n": false, "http://1.2.3": false, "http://gpu,gpu2:80": false,
	} {
		if err := CheckBaseURL(address); (err == nil) != ok {
			t.Errorf("CheckBaseURL(%q) = %v, want success: %v", address, err, ok)
		}
	}
}

func TestPointsToListener(t *testing.T) {
	for _, c := range []struct {
		url, listen string
		want        bool
	}{
		{"http://127.0.0.1:4000", "127.0.0.1:4000", true},
		{"unix:///run/edge.sock:/llama", "unix:/run/edge.sock|0600", true},
		{"unix:/run/vllm.sock", "unix:/run/edge.sock", false},
		{"unix:/run/vllm.sock", "127.0.0.1:4000", false},
		{"http://localhost:4000", "127.0.0.1:4000", true},
		{"http://127.0.0.1:4000", ":4000", true},
		{"http://[::1]:4000", "[::]:4000", true},
		{"http://0.0.0.0:4000", "localhost:4000", true},
		{"https://Edge.example", "edge.example:443", true},
		{"http://127.0.0.1:4001", "127.0.0.1:4000", false},
		{"http://127.0.0.2:4000", "127.0.0.1:4000", false},
		{"http://10.0.0.11:4000", ":4000", false},
		{"http://localhost", "localhost:443", false},
		{"http://localhost:0", "localhost:0", false},
		{"http://localhost:4000", "", false},
	} {
		if got := pointsToListener(c.url, c.listen); got != c.want {
			t.Errorf("pointsToListener(%q, %q) = %v, want %v", c.url, c.listen, got, c.want)
		}
	}
}

func TestListensConflict(t *testing.T) {
	for _, c := range []struct {
		one, other string
		want       bool
	}{
		{"127.0.0.1:4000", "127.0.0.1:4000", true},
		{"127.0.0.1:4000", "127.0.0.1:4001", false},
		{"127.0.0.1:4000", "127.0.0.2:4000", false},
		{"0.0.0.0:4000", "127.0.0.1:4000", true},
		{"127.0.0.1:4000", ":4000", true},
		{"[::]:4000", "10.0.0.1:4000", true},
		{"0.0.0.0:4000", "[::]:4000", true},
		{"0.0.0.0:4000", "edge.internal:4000", true},
		{":0", ":0", false},
		{"0.0.0.0:4000", "[::1]:4000", false},
		{"[::1]:4000", "0.0.0.0:4000", false},
		{"[::]:4000", "[::1]:4000", true},
	} {
		if got := listensConflict(c.one, c.other); got != c.want {
			t.Errorf("listensConflict(%q, %q) = %v, want %v", c.one, c.other, got, c.want)
		}
	}
}
