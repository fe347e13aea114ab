package process

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Executable returns the path of this program, which also serves as the simulator and the edge.
// Tests replace it.
var Executable = os.Executable

// StartSim starts a simulated engine and returns its address.
func StartSim(ctx context.Context, name string, on []int, flags ...string) (c *Child, addr string, err error) {
	c, err = startSelf(ctx, name, on, append([]string{"sim"}, flags...), func(line string) bool {
		_, rest, ok := strings.Cut(line, " listening on http://")
		addr, _, _ = strings.Cut(rest, ",")
		return ok
	})
	return c, addr, err
}

// StartEdge starts an edge. The configuration must have an admin listener. StartEdge returns the
// base URLs of the edge and of its admin listener, without /v1.
func StartEdge(ctx context.Context, name string, on []int, config string) (c *Child, url, admin string, err error) {
	c, err = startSelf(ctx, name, on, []string{"serve", "--config", config}, func(line string) bool {
		rest, ok := strings.CutPrefix(line, "penstock: serving ")
		url, admin, _ = strings.Cut(rest, " (admin: ")
		url, admin = strings.TrimSuffix(url, "/v1"), strings.TrimSuffix(admin, ")")
		return ok
	})
	return c, url, admin, err
}

func startSelf(ctx context.Context, name string, on []int, args []string, ready func(line string) bool) (*Child, error) {
	program, err := Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return Start(ctx, name, append([]string{program}, args...), on, ready)
}
