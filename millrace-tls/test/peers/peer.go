// A client or a server on Go's crypto/tls, for the tests. Usage as peer.py.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(port, authority string) {
	pem, err := os.ReadFile(authority)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	connection, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	check(err)
	_, err = connection.Write([]byte("question\n"))
	check(err)
	// An end without close_notify is an error here.
	received, err := io.ReadAll(connection)
	check(err)
	fmt.Print(string(received))
}

func server(chain, key string) {
	certificate, err := tls.LoadX509KeyPair(chain, key)
	check(err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	check(err)
	var port int
	fmt.Sscanf(listener.Addr().String(), "127.0.0.1:%d", &port)
	fmt.Println(port)
	connection, err := listener.Accept()
	check(err)
	for lines := bufio.NewScanner(connection); lines.Scan(); {
		turned := []byte(lines.Text())
		for i, j := 0, len(turned)-1; i < j; i, j = i+1, j-1 {
			turned[i], turned[j] = turned[j], turned[i]
		}
		_, err = connection.Write(append(turned, '\n'))
		check(err)
	}
	check(connection.Close())
}

func main() {
	if os.Args[1] == "client" {
		client(os.Args[2], os.Args[3])
	} else {
		server(os.Args[2], os.Args[3])
	}
}
