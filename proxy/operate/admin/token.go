package admin

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/limit"
	"penstock/translate/apierr"
)

// tokenGate checks admin tokens and limits guesses. It is safe for concurrent use.
type tokenGate struct {
	log                  *zap.Logger
	guesses              limit.GuessLimiter
	lastLogged           atomic.Int64 // when guesses were last logged, in Unix nanoseconds
	wrongTokens, delayed *metrics.Counter
}

func newTokenGate(log *zap.Logger, set *metrics.Set) tokenGate {
	return tokenGate{
		log: log, wrongTokens: set.NewCounter(`penstock_admin_denied_total{reason="token"}`),
		delayed: set.NewCounter(`penstock_admin_denied_total{reason="brake"}`),
	}
}

type authenticatedCaller struct {
	name string // empty if the listener requires no token
	role string
}

// mainTokenName is the name for admin.token, which has no name in the configuration.
const mainTokenName = "admin.token"

// identifyCaller returns the caller with the given token. The duration of identifyCaller reveals
// nothing about the characters of a token.
func identifyCaller(given []byte, a *config.Admin) (c authenticatedCaller, right bool) {
	if a.Token != "" && subtle.ConstantTimeCompare(given, []byte(a.Token)) == 1 {
		c, right = authenticatedCaller{mainTokenName, config.AdminRoleAll}, true
	}
	if len(a.Tokens) == 0 {
		return c, right
	}
	hash := []byte(auth.HashKey(string(given)))
	for i := range a.Tokens {
		t := &a.Tokens[i]
		if t.Token != "" && subtle.ConstantTimeCompare(given, []byte(t.Token)) == 1 ||
			t.Hash != "" && subtle.ConstantTimeCompare(hash, []byte(t.Hash)) == 1 {
			c, right = authenticatedCaller{t.Name, t.Role}, true
		}
	}
	return c, right
}

// authenticate returns the caller whose token is in the request, or an error. The token may be a bearer
// token or, from a browser, the password of Basic authentication.
//
// If too many tokens from an address are wrong, authenticate blocks the address for a while. A
// blocked address may still use a correct token, unless the token is short. Only the block protects
// a short token from being guessed.
func (g *tokenGate) authenticate(ctx *fasthttp.RequestCtx, a *config.Admin, now time.Time) (authenticatedCaller, *apierr.Error) {
	if !a.RequiresToken() {
		return authenticatedCaller{role: config.AdminRoleAll}, nil
	}
	peer := peerAddress(ctx)
	authorization := ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)
	given := authorizationToken(authorization)
	c, right := identifyCaller(given, a)
	if right && len(given) >= config.MinAdminTokenLen {
		return c, nil // wrong tokens sent by other programs at this address do not block this token
	}
	if wait := g.guesses.WaitTime(peer, now); wait > 0 {
		g.delayed.Inc()
		err := apierr.New(fasthttp.StatusTooManyRequests, apierr.CodeRateLimited,
			"Too many wrong admin tokens came from this address. Retry in %d seconds.", int(wait/time.Second)+1)
		err.RetryAfter = wait
		return authenticatedCaller{}, err
	}
	if right {
		return c, nil
	}
	if len(authorization) > 0 { // a request without a token is not a guess
		g.countWrongToken(peer, now)
	}
	return authenticatedCaller{}, apierr.New(fasthttp.StatusUnauthorized, apierr.CodeInvalidAPIKey,
		"The admin token is missing or wrong: send it as \"Authorization: Bearer TOKEN\", or give it to the browser as the password.")
}

// countWrongToken counts a wrong token. If an address has exhausted its attempts, countWrongToken
// logs this, at most once a minute.
func (g *tokenGate) countWrongToken(peer netip.Addr, now time.Time) {
	g.wrongTokens.Inc()
	if g.guesses.RecordWrong(peer, now) && now.Sub(time.Unix(0, g.lastLogged.Load())) > time.Minute {
		g.lastLogged.Store(now.UnixNano())
		g.log.Warn("repeated wrong admin tokens: address blocked temporarily")
	}
}

func acceptsHTML(h *fasthttp.RequestHeader) bool {
	return bytes.Contains(h.Peek(fasthttp.HeaderAccept), []byte("text/html"))
}

func peerAddress(ctx *fasthttp.RequestCtx) netip.Addr {
	if tcp, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}

// authorizationToken returns the token in an Authorization header. It ignores the case of the
// scheme (RFC 9110, 11.1).
func authorizationToken(authorization []byte) []byte {
	scheme, given, _ := bytes.Cut(authorization, []byte(" "))
	given = bytes.TrimLeft(given, " ")
	if bytes.EqualFold(scheme, []byte("bearer")) {
		return given
	}
	if !bytes.EqualFold(scheme, []byte("basic")) {
		return nil
	}
	pair, err := base64.StdEncoding.DecodeString(string(given))
	if err != nil {
		return nil
	}
	_, password, _ := bytes.Cut(pair, []byte{':'})
	return password
}
