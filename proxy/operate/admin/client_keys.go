package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/plaintext"
)

// KeyClient asks a running edge to change a key, or to list its keys.
type KeyClient struct {
	Edge Edge
	JSON bool // print the edge's response unchanged
}

// Create makes the edge create a key. members contains the members of a key's entry in the
// configuration.
func (r *KeyClient) Create(members map[string]any, out io.Writer) error {
	return r.sendChange(fasthttp.MethodPost, "/-/keys", members, out)
}

// Rotate makes the edge create another secret for a key. The current secrets stay valid during the
// overlap.
func (r *KeyClient) Rotate(id string, overlap time.Duration, out io.Writer) error {
	return r.sendChange(fasthttp.MethodPost, "/-/keys/"+url.PathEscape(id)+"/rotate", map[string]any{"overlap": overlap.String()}, out)
}

// Revoke makes the edge revoke a key.
func (r *KeyClient) Revoke(id string, out io.Writer) error {
	return r.sendChange(fasthttp.MethodDelete, "/-/keys/"+url.PathEscape(id), nil, out)
}

// List writes the edge's keys to out, one per line. Indented lines below a key are warnings for its
// owner.
func (r *KeyClient) List(out io.Writer) error {
	body, err := r.Edge.get("/-/keys", keysTimeout+readyTimeout)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSONLine(out, body)
	}
	var all KeyList
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("%s did not answer like a Penstock admin listener", r.Edge.Admin)
	}
	for i := range all.Keys {
		k := &all.Keys[i]
		state := "in force"
		switch {
		case !k.Active:
			state = "off"
		case k.Expires != nil && !k.Expires.After(time.Now()):
			state = "expired " + k.Expires.UTC().Format(time.RFC3339)
		case k.Expires != nil:
			state = "until " + k.Expires.UTC().Format(time.RFC3339)
		}
		group := ""
		if k.Group != "" {
			group = "group " + plaintext.CleanLine(k.Group) + "  "
		}
		fmt.Fprintf(out, "%s  %s  models %s  %s%s\n", plaintext.CleanLine(k.ID), state,
			plaintext.CleanLine(strings.Join(k.Models, ",")), group, plaintext.CleanLine(k.Source))
		for _, n := range k.Notes {
			fmt.Fprintf(out, "  %s\n", plaintext.CleanLine(n))
		}
	}
	return nil
}

func (r *KeyClient) sendChange(method, path string, members map[string]any, out io.Writer) error {
	var send []byte
	if members != nil {
		var err error
		if send, err = json.Marshal(members); err != nil {
			return err
		}
	}
	body, note, err := r.Edge.sendRequest(method, path, send, keysTimeout+readyTimeout)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSONLine(out, body)
	}
	var done KeyChange
	if err := json.Unmarshal(body, &done); err != nil {
		return fmt.Errorf("%s did not answer like a Penstock admin listener", r.Edge.Admin)
	}
	if done.Key != "" {
		fmt.Fprintf(out, "%s\n\n# Keep the key now: only its hash is stored. %s\n", plaintext.CleanLine(done.Key), plaintext.CleanLine(done.Note))
	} else {
		fmt.Fprintf(out, "revoked: %s. %s\n", plaintext.CleanLine(done.ID), plaintext.CleanLine(done.Note))
	}
	for _, w := range done.Warnings {
		printWarning(plaintext.CleanLine(w), out)
	}
	printWarning(note, out)
	return nil
}
