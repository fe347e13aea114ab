package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"penstock/config"
)

func keylessFile(t *testing.T, top string) *config.File {
	t.Helper()
	const rest = `
auth: none
admin: { listen: "" }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	f, problems := config.ParseValid("test.yaml", []byte(top+rest), config.KnownProfiles{Engines: []string{"sim"}})
	if f == nil {
		t.Fatal(problems)
	}
	return f
}

// TestKeylessAndWebPages checks that an edge without keys answers programs, pages of its own
// origin, and pages listed in cors.origins. It must reject all other pages in a browser on this
// machine, even if the page's host name resolves to the edge (DNS rebinding) or the request needs
// no preflight.
func TestKeylessAndWebPages(t *testing.T) {
	plain := keylessFile(t, "")
	listed := keylessFile(t, "cors: { origins: [\"https://chat.example.com\"] }\n")
	open := keylessFile(t, "cors: { origins: [\"*\"] }\n")
	named := keylessFile(t, "listen: localhost:4000\n")
	const post, get = "POST /v1/chat/completions", "GET /v1/models"
	for _, row := range []struct {
		name    string
		file    *config.File
		request string
		headers []string
		refused bool
	}{
		{"curl", plain, post, []string{"Host: 127.0.0.1:4000"}, false},
		{"by name", plain, post, []string{"Host: localhost:4000"}, false},
		{"by name, to the dot", plain, post, []string{"Host: LocalHost.:4000"}, false},
		{"by a loopback name", plain, post, []string{"Host: edge.localhost:4000"}, false},
		{"from a container", plain, post, []string{"Host: host.docker.internal:4000"}, false},
		{"by address", plain, post, []string{"Host: 192.168.1.7"}, false},
		{"by address 6", plain, post, []string{"Host: [::1]:4000"}, false},
		{"HTTP/1.0", plain, post, []string{"Host: "}, false},
		{"another name", plain, post, []string{"Host: evil.example"}, true},
		{"a name like an address", plain, post, []string{"Host: 127.0.0.1.evil.example:4000"}, true},
		{"a name like ours", plain, post, []string{"Host: notlocalhost"}, true},
		{"rebound", plain, post, []string{"Host: evil.example:4000", "Origin: http://evil.example:4000", "Sec-Fetch-Site: same-origin"}, true},
		{"rebound get", plain, get, []string{"Host: evil.example:4000", "Sec-Fetch-Site: same-origin"}, true},
		{"own page", plain, post, []string{"Host: localhost:4000", "Origin: http://localhost:4000", "Sec-Fetch-Site: same-origin"}, false},
		{"own page over TLS", plain, post, []string{"Host: localhost:4000", "Origin: https://localhost:4000"}, false},
		{"foreign page", plain, post, []string{"Host: localhost:4000", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, true},
		{"foreign page of an older browser", plain, post, []string{"Host: localhost:4000", "Origin: https://evil.example"}, true},
		{"another port of this machine", plain, post, []string{"Host: localhost:4000", "Origin: http://localhost:3000", "Sec-Fetch-Site: same-site"}, true},
		{"a page without an origin", plain, post, []string{"Host: localhost:4000", "Origin: null"}, true},
		{"an image", plain, get, []string{"Host: localhost:4000", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, true},
		{"a frame", plain, get, []string{"Host: localhost:4000", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, true},
		{"a link", plain, get, []string{"Host: localhost:4000", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, false},
		{"a form", plain, post, []string{"Host: localhost:4000", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, true},
		{"typed", plain, get, []string{"Host: localhost:4000", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, false},
		{"an installed program", plain, post, []string{"Host: localhost:4000", "Origin: vscode-webview://abc", "Sec-Fetch-Site: cross-site"}, false},
		{"a listed page", listed, post, []string{"Host: localhost:4000", "Origin: https://chat.example.com", "Sec-Fetch-Site: cross-site"}, false},
		{"a listed page by its own name", listed, post, []string{"Host: chat.example.com", "Origin: https://chat.example.com", "Sec-Fetch-Site: same-origin"}, false},
		{"not the listed page", listed, post, []string{"Host: localhost:4000", "Origin: https://chat.example.com.evil.example"}, true},
		{"any page", open, post, []string{"Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site"}, false},
		{"by the name that it listens on", named, post, []string{"Host: localhost:4000"}, false},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		method, path, _ := strings.Cut(row.request, " ")
		ctx.Request.Header.SetMethod(method)
		ctx.Request.Header.SetRequestURI(path)
		for _, h := range row.headers {
			name, value, _ := strings.Cut(h, ": ")
			ctx.Request.Header.Set(name, value)
		}
		err := CheckPageRequest(&ctx.Request.Header, OwnHostNames(row.file), row.file.CORS.Origins)
		if refused := err != nil; refused != row.refused {
			t.Errorf("%s: refused %t, want %t: %v", row.name, refused, row.refused, err)
		}
	}
	if hosts := OwnHostNames(named); !slices.Contains(hosts, "localhost") {
		t.Errorf("the name that it listens on is not its own: %q", hosts)
	}
}
