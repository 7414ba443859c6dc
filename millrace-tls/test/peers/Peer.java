import java.io.FileInputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/** A client on Java's JSSE, for the tests: sends a question to localhost, prints the answer. Usage: Peer.java PORT CA */
public class Peer {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (FileInputStream pem = new FileInputStream(arguments[1])) {
            trusted.setCertificateEntry("root", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        Socket raw = new Socket(InetAddress.getByAddress(new byte[] {127, 0, 0, 1}), port);
        try (SSLSocket connection = (SSLSocket) context.getSocketFactory().createSocket(raw, "localhost", port, true)) {
            SSLParameters parameters = connection.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            connection.setSSLParameters(parameters);
            connection.getOutputStream().write("question\n".getBytes());
            System.out.write(connection.getInputStream().readAllBytes());
            System.out.flush();
        }
    }
}
