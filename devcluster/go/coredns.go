// CoreDNS with only the plugins that serve the names of a cluster.
//
// There is no cache: a test that makes a service wants its name at once.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	// A directive without its plugin stops CoreDNS at its start, so the list is exactly the plugins above.
	dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
	coremain.Run()
}
