#!/usr/bin/env python3
"""Prints the reference values of per_tests.rs, from formulas and mpmath alone: per_table.py (pip install mpmath)

First the packet error rate of CCK-5.5 at 1000 bytes by the SNR: the table CCK_5_5_AT_1000_BYTES. Then, for ns-3's rows of CCK, the
success rate of 1078 bytes at the noise of two Boltzmann constants: the one of ns-3's interference-helper.cc, and the one that the
noise of its wifi-error-rate-models-test.cc amounts to.
"""

from mpmath import erfc, exp, log10, log1p, mp, mpf, ncdf, npdf, nstr, quad, sqrt

mp.dps = 30


def wrong_symbol(ratio):
    """Pursley and Royster, eq. 18: a wrong one of 16 biorthogonal signals at this E_s/N_0."""
    beta = sqrt(2 * ratio)
    # 1 - P, so that a small probability keeps its digits; in pieces, since the density is narrow.
    pieces = [-beta, *(at for at in range(-40, 41, 2) if at > -beta)]
    return ncdf(-beta) + quad(lambda x: (1 - (1 - erfc((x + beta) / sqrt(2))) ** 7) * npdf(x), pieces)


def success(chips, snr_db, bits):
    """A frame's: `chips` of 8 carry one symbol of 4 bits."""
    return exp(bits * log1p(-wrong_symbol(chips * mpf(10) ** (mpf(snr_db) / 10))) / 4)


def main():
    for snr in ("1", "2", "2.5", "3", "3.5", "4", "4.5", "5", "5.5", "6", "7"):
        print(f"{snr} dB: {nstr(1 - success(8, snr, 8000), 7, min_fixed=0, max_fixed=0, strip_zeros=False)}")
    for name, chips, powers in (("cck-5.5", 8, (-93, -92, -91, -90, -89, -88)), ("cck-11", 4, (-90, -89, -88, -87, -86, -85))):
        for power in powers:
            shown = []
            for boltzmann in ("1.3803e-23", "1.38023e-23"):
                noise = 10 * log10(mpf(boltzmann) * 290 * mpf(22e6) / mpf("1e-3")) + 7
                shown.append(f"{nstr(success(chips, power - noise, 8 * 1078), 5)} with k = {boltzmann}")
            print(f"{name} at {power} dBm: {', '.join(shown)}")


if __name__ == "__main__":
    main()
