package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/runkeys"
	"penstock/proxy/front/plaintext"
	"penstock/translate/apierr"
)

// KeyView is an operator's view of a key, without its secret or hash.
type KeyView struct {
	ID string `json:"id"`
	// Source is "configuration", or "runtime" for a key that was created at run time.
	Source     string         `json:"source"`
	Active     bool           `json:"active"`
	Models     []string       `json:"models"`
	Operations []string       `json:"operations"`
	Expires    *time.Time     `json:"expires,omitempty"`
	Limits     map[string]any `json:"limits,omitempty"`
	Group      string         `json:"group,omitempty"`
	CacheGroup string         `json:"cache_group,omitempty"`
	Tiers      []int          `json:"tiers,omitempty"`
	Class      string         `json:"class,omitempty"`
	Weight     int            `json:"weight"`
	Secrets    []SecretView   `json:"secrets,omitempty"`
	// Certificate is the name or the hash of the client certificates that identify the key.
	Certificate string   `json:"certificate,omitempty"`
	Notes       []string `json:"notes,omitempty"` // only in the list; see status.Key
}

// SecretView describes one secret of a key. During a rotation, a key has more than one secret.
type SecretView struct {
	Expires *time.Time `json:"expires,omitempty"`
}

// The values of KeyView.Source.
const (
	sourceConfiguration = "configuration"
	sourceRuntime       = "runtime"
)

// KeyChange is the response to a request that changes a key.
type KeyChange struct {
	KeyView
	Key      string   `json:"key,omitempty"` // the secret of a new or rotated key, shown only once
	Revoked  bool     `json:"revoked,omitempty"`
	Note     string   `json:"note"` // when the change takes effect
	Warnings []string `json:"warnings,omitempty"`
}

// KeyList is the response to GET /-/keys.
type KeyList struct {
	Keys []KeyView `json:"keys"`
}

// NewKeyView returns the view of a key from the given source.
func NewKeyView(k *config.Key, source string) KeyView {
	l := &k.Limits
	v := KeyView{
		ID: k.ID, Source: source, Active: k.Enabled(), Models: k.Models, Operations: k.Operations, Expires: optionalTime(k.Expires),
		Group: k.Group, CacheGroup: k.CacheGroup, Tiers: k.Tiers, Class: k.Class, Weight: k.Weight, Limits: map[string]any{},
		Certificate: cmp.Or(k.Certificate.SAN, k.Certificate.SPKI),
	}
	for name, n := range map[string]int{
		"requests_per_minute": l.RequestsPerMinute, "tokens_per_minute": l.TokensPerMinute, "concurrency": l.Concurrency,
		"tokens_per_day": l.TokensPerDay, "tokens_per_month": l.TokensPerMonth,
		"request_body": int(l.RequestBody), "upload_body": int(l.UploadBody),
	} {
		if n != 0 {
			v.Limits[name] = n
		}
	}
	if !l.SpendPerDay.Zero() {
		v.Limits["spend_per_day"] = l.SpendPerDay.String()
	}
	if !l.SpendPerMonth.Zero() {
		v.Limits["spend_per_month"] = l.SpendPerMonth.String()
	}
	if l.Per == config.LimitPerKey {
		v.Limits["per"] = l.Per
	}
	for _, h := range k.Hash {
		v.Secrets = append(v.Secrets, SecretView{optionalTime(h.Expires)})
	}
	return v
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

const keysTimeout = 5 * time.Second

func (s *Server) handleListKeys(ctx *fasthttp.RequestCtx) {
	views, err := s.keyViews()
	if err != nil {
		respondError(ctx, s.keyAPIError(err))
		return
	}
	notes := map[string][]string{}
	for _, k := range s.buildStatus(requestCaller(ctx)).Keys {
		if !k.IsGroup {
			notes[k.ID] = k.Notes
		}
	}
	for i := range views {
		views[i].Notes = notes[views[i].ID]
	}
	respondJSON(ctx, KeyList{views})
}

func (s *Server) handleGetKey(ctx *fasthttp.RequestCtx) {
	views, err := s.keyViews()
	if err != nil {
		respondError(ctx, s.keyAPIError(err))
		return
	}
	id, ids := keyIDParam(ctx), []string{}
	for i := range views {
		if views[i].ID == id {
			respondJSON(ctx, views[i])
			return
		}
		ids = append(ids, views[i].ID)
	}
	respondError(ctx, noSuchKeyError(id, ids))
}

func noSuchKeyError(id string, ids []string) *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound, "There is no key with that id%s", cmp.Or(suggest.DidYouMean(id, ids), "."))
}

// keyViews returns all keys. If a key in the configuration and a key created at run time have the
// same id, it returns only the key in the configuration.
func (s *Server) keyViews() ([]KeyView, error) {
	views := []KeyView{}
	file := s.opts.Reloads.RunningSnapshot().Config.Keys
	for i := range file {
		views = append(views, NewKeyView(&file[i], sourceConfiguration))
	}
	if s.opts.Keys != nil {
		limit, cancel := context.WithTimeout(context.Background(), keysTimeout)
		defer cancel()
		entries, err := s.opts.Keys.Entries(limit)
		if err != nil {
			return nil, err
		}
		for id, text := range entries {
			if key, err := config.ParseKeyEntry(text); err == nil && !isConfiguredKey(file, id) {
				views = append(views, NewKeyView(&key, sourceRuntime))
			}
		}
	}
	slices.SortFunc(views, func(a, b KeyView) int { return cmp.Compare(a.ID, b.ID) })
	return views, nil
}

func isConfiguredKey(file []config.Key, id string) bool {
	return slices.ContainsFunc(file, func(k config.Key) bool { return k.ID == id })
}

func keyIDParam(ctx *fasthttp.RequestCtx) string {
	id, _ := ctx.UserValue("id").(string)
	return id
}

var errNoKey = errors.New("no key")

func (s *Server) handleCreateKey(ctx *fasthttp.RequestCtx) {
	plain, hash, err := auth.NewKey()
	if err != nil {
		respondError(ctx, apierr.InternalError(err))
		return
	}
	entry, err := runkeys.NewEntry(ctx.PostBody(), hash)
	if err != nil {
		respondError(ctx, s.keyAPIError(err))
		return
	}
	key, err := config.ParseKeyEntry(entry)
	if err == nil && strings.ContainsAny(key.ID, "/?#%") || key.ID == "." || key.ID == ".." {
		err = &runkeys.RequestMistakeError{Field: "id", Message: "the id is a part of a path here: it has no / ? # and %"}
	}
	if now := time.Now(); err == nil && !key.Expires.IsZero() && !key.Expires.After(now) {
		err = &runkeys.RequestMistakeError{Field: "expires", Message: key.Expires.Format(time.RFC3339) + " is past: the key would never be in force"}
	}
	if err != nil {
		respondError(ctx, s.keyAPIError(err))
		return
	}
	s.changeKey(ctx, keyChange{id: key.ID, event: "key_created", secret: plain, editEntry: func(old string) (string, error) {
		if old != "" {
			return "", &conflictError{"A key with this id already exists: change it with PATCH, or revoke it first."}
		}
		return entry, nil
	}})
}

func (s *Server) handlePatchKey(ctx *fasthttp.RequestCtx) {
	s.changeKey(ctx, keyChange{id: keyIDParam(ctx), event: "key_changed", editEntry: func(old string) (string, error) {
		if old == "" {
			return "", errNoKey
		}
		return runkeys.ChangeEntry(old, ctx.PostBody())
	}})
}

func (s *Server) handleDeleteKey(ctx *fasthttp.RequestCtx) {
	s.changeKey(ctx, keyChange{id: keyIDParam(ctx), event: "key_revoked", editEntry: func(old string) (string, error) {
		if old == "" {
			return "", errNoKey
		}
		return "", nil
	}})
}

func (s *Server) handleRotateKey(ctx *fasthttp.RequestCtx) {
	overlap, err := parseOverlap(ctx.PostBody())
	if err != nil {
		respondError(ctx, s.keyAPIError(err))
		return
	}
	plain, hash, err := auth.NewKey()
	if err != nil {
		respondError(ctx, apierr.InternalError(err))
		return
	}
	now := time.Now()
	s.changeKey(ctx, keyChange{id: keyIDParam(ctx), event: "key_rotated", secret: plain, editEntry: func(old string) (string, error) {
		if old == "" {
			return "", errNoKey
		}
		return runkeys.RotateEntry(old, hash, now.Add(overlap), now)
	}})
}

// The default and the maximum overlap. The overlap is how long the old secrets stay valid after a
// rotation.
const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 366 * 24 * time.Hour
)

func parseOverlap(body []byte) (time.Duration, error) {
	var members map[string]json.RawMessage
	if len(body) == 0 {
		return defaultOverlap, nil
	}
	if json.Unmarshal(body, &members) != nil || members == nil {
		return 0, &runkeys.RequestMistakeError{Message: "the body is a JSON object, such as {\"overlap\": \"24h\"}, or empty"}
	}
	overlap := defaultOverlap
	for name, value := range members {
		var text string
		if name != "overlap" {
			return 0, &runkeys.RequestMistakeError{Field: plaintext.CleanLine(name), Message: "a rotation takes overlap and nothing else"}
		}
		d, err := time.Duration(0), json.Unmarshal(value, &text)
		if err == nil {
			d, err = time.ParseDuration(text)
		}
		if err != nil || d < 0 || d > maxOverlap {
			return 0, &runkeys.RequestMistakeError{Field: "overlap", Message: "how long the old secret stays good is a time such as \"24h\" or \"0s\", at most 366 days"}
		}
		overlap = d
	}
	return overlap, nil
}

type keyChange struct {
	id, event string
	secret    string
	editEntry func(entry string) (string, error)
}

type conflictError struct{ message string }

func (c *conflictError) Error() string { return c.message }

// changeKey changes a key that was created at run time. An admin token is required, because a
// client must not be able to create keys just because it can reach the port.
func (s *Server) changeKey(ctx *fasthttp.RequestCtx, c keyChange) {
	running, who := s.opts.Reloads.RunningSnapshot().Config, requestCaller(ctx)
	refused := ""
	switch {
	case who.name == "":
		respondError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Keys are made and changed with an admin token only: set admin.token, or admin.tokens with the role keys."))
		return
	case s.opts.Keys == nil:
		refused = "This edge has nowhere to keep keys that are made while it runs: set admin.keys.file, or fleet.keys with a store."
	case isConfiguredKey(running.Keys, c.id):
		refused = "This key is in the configuration, which is not written from here: change it there."
	}
	if refused != "" {
		respondError(ctx, s.keyAPIError(&conflictError{refused}))
		return
	}
	var now config.Key
	var warnings []string
	limit, cancel := context.WithTimeout(context.Background(), keysTimeout)
	defer cancel()
	err := s.opts.Keys.Update(limit, c.id, func(old string) (string, error) {
		entry, err := c.editEntry(old)
		text := cmp.Or(entry, old) // for a revoked key, its last entry
		if err == nil {
			now, err = config.ParseKeyEntry(text)
		}
		if err != nil || entry == "" {
			return entry, err
		}
		warnings = nil
		for _, p := range running.CheckKey(now) {
			if !p.Warning {
				return "", &runkeys.RequestMistakeError{Field: p.Path, Message: p.Message}
			}
			warnings = append(warnings, p.Path+": "+p.Message)
		}
		return entry, nil
	})
	if errors.Is(err, errNoKey) {
		var ids []string
		if views, bad := s.keyViews(); bad == nil {
			for i := range views {
				ids = append(ids, views[i].ID)
			}
		}
		respondError(ctx, noSuchKeyError(c.id, ids))
		return
	}
	if err != nil {
		respondError(ctx, s.keyAPIError(err))
		return
	}
	s.opts.Log.Info("a key was "+strings.TrimPrefix(c.event, "key_"), zap.String("event", c.event), zap.String("key", c.id),
		zap.String("who", who.name))
	done := KeyChange{KeyView: NewKeyView(&now, sourceRuntime), Key: c.secret, Note: s.opts.Keys.EffectNotice(), Warnings: warnings}
	if done.Revoked = c.event == "key_revoked"; done.Revoked {
		done.Active, done.Note = false, "What runs with it ends as on_revoke says. "+done.Note
	}
	respondJSON(ctx, done)
	ctx.Response.Header.Set("Cache-Control", "no-store")
	if c.event == "key_created" {
		ctx.SetStatusCode(fasthttp.StatusCreated)
	}
}

func (s *Server) keyAPIError(err error) *apierr.Error {
	var mistake *runkeys.RequestMistakeError
	var wrong *config.KeyError
	var against *conflictError
	switch {
	case errors.As(err, &mistake):
		return apierr.Invalid(mistake.Field, apierr.CodeInvalidValue, "%s", mistake.Error())
	case errors.As(err, &wrong):
		return apierr.Invalid(wrong.Field, apierr.CodeInvalidValue, "%s", wrong.Error())
	case errors.As(err, &against):
		return apierr.New(fasthttp.StatusConflict, apierr.CodeOperationNotAllowed, "%s", against.message)
	case errors.Is(err, runkeys.ErrReadOnly):
		return apierr.New(fasthttp.StatusConflict, apierr.CodeOperationNotAllowed, "Keys cannot be changed here: %s.", plaintext.CleanLine(err.Error()))
	}
	s.opts.Log.Error("keys cannot be read or changed", zap.Error(err))
	return apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeKeysUnavailable, "%s",
		fmt.Sprintf("Nothing has changed: %s.", plaintext.CleanLine(err.Error())))
}
