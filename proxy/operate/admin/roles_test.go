package admin

import (
	"net"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/auth"
)

// TestRoles checks that each token has the configured role, and that admin.token has all rights.
// The configuration may contain the token or its hash.
func TestRoles(t *testing.T) {
	const main, reader, keeper, wrong = "0123456789abcdef0", "0123456789abcdef1", "0123456789abcdef2", "0123456789abcdef3"
	named := config.Admin{Token: main, Tokens: []config.AdminToken{
		{Name: "grafana", Token: reader, Role: config.AdminRoleRead},
		{Name: "portal", Hash: config.Secret(auth.HashKey(keeper)), Role: config.AdminRoleKeys},
	}}
	alone := named
	alone.Token = ""
	for _, row := range []struct {
		name   string
		admin  config.Admin
		given  string
		status int // response status if the token is rejected
		want   authenticatedCaller
	}{
		{"the main token", named, main, 0, authenticatedCaller{mainTokenName, config.AdminRoleAll}},
		{"a token of the file", named, reader, 0, authenticatedCaller{"grafana", config.AdminRoleRead}},
		{"a hash of the file", named, keeper, 0, authenticatedCaller{"portal", config.AdminRoleKeys}},
		{"none of them", named, wrong, 401, authenticatedCaller{}},
		{"the hash itself", named, auth.HashKey(keeper), 401, authenticatedCaller{}},
		{"no token", named, "", 401, authenticatedCaller{}},
		{"no token, without a main one", alone, "", 401, authenticatedCaller{}},
		{"an empty hash", config.Admin{Tokens: []config.AdminToken{{Name: "x"}}}, "", 401, authenticatedCaller{}},
		{"nothing is asked for", config.Admin{}, "", 0, authenticatedCaller{"", config.AdminRoleAll}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newTokenGate(zap.NewNop(), metrics.NewSet())
			var r fasthttp.Request
			r.Header.Set("Authorization", "Bearer "+row.given)
			var ctx fasthttp.RequestCtx
			ctx.Init(&r, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, nil)
			got, err := g.authenticate(&ctx, &row.admin, time.Now())
			status := 0
			if err != nil {
				status = err.Status
			}
			if got != row.want || status != row.status {
				t.Errorf("%+v, status %d, want %+v and %d", got, status, row.want, row.status)
			}
		})
	}
	for _, row := range []struct{ role, may, not string }{
		{config.AdminRoleRead, config.AdminRoleRead, config.AdminRoleKeys},
		{config.AdminRoleKeys, config.AdminRoleRead, config.AdminRoleAll},
		{config.AdminRoleAll, config.AdminRoleKeys, ""},
		{"", "", config.AdminRoleRead},
	} {
		if !config.AdminRoleAllows(row.role, row.may) || row.not != "" && config.AdminRoleAllows(row.role, row.not) {
			t.Errorf("%s does not have the rights of %s alone", row.role, row.may)
		}
	}
}
