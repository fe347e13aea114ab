//go:build !testing

package guard

// PanicIfInjected marks where a test may make the edge panic (see Inject). In this build, it does
// nothing.
func (*Guard) PanicIfInjected(string) {}
