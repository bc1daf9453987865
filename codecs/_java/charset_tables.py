"""The charsets of Java 17: names, aliases and tables, as scripts/charset_tables/generate wrote them.

Not edited by hand: they are what OpenJDK 17's own charsets answered.
"""

from __future__ import annotations

import base64
import json
import lzma
from typing import Any


def load() -> dict[str, Any]:
    """Unpack the tables: `{canonical name: {"aliases": [...], and what the charset's kind needs}}`."""
    unpacked: dict[str, Any] = json.loads(lzma.decompress(base64.b85decode("".join(_PACKED.split()))))
    return unpacked


_PACKED = """
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;knW|VgUd>h{tG*{iS^6m(5Rm@=;Lq-Rn3;BlzK|Q7_TjUF1t_Lqlno@aXWEwWPO^{-}0nTsKhm9Yz{2;{)$lV
gNQAg%8+8y9)&u^x6|FE3?hw?seU0Xob~O;3YkGBrHy^f&7cTvC0s?(jP%?QhN^K4}5eJxgSgj39>O%ktuBSO9YYWT#5XLWoFP*Xg~9KfJpXwhRl?gi+
P|{k6X~a{1p|_7zBAv`3%};xg2q$AQS~S*zB$Rk`un)-EG&y#DZ|%j1-cFHNMAMt~x#gS9V7~L#f7O+98x*UcpZvN_*U^OUL^(jao?<-u@BsoRP8G?%g
^uBM#YVku<WS_*nQ9>0dr}314hS;uq0#{<x9Sy9-8YH^oP2>paAI=I}pR^J$n=ureoU^DeJ9z)N-%Qg6*xnc~LqH}b3C7!Slo*ubRqua|qp7S0>6`;nt
E=a&svsc881J~a_gb6ehxTvjC;JVwO&9wG^QyifR#=CEhBvCYyv%|fTJ!`mQ=<WE_foHYB$ORgUd^7CSH>A<nM$L1EgiN5b9R!2PE_17n!z;DhlFX^hD
d<5&lQ;bN`KhX+Kz+oTeujt~zN1Q!WQ$^jFP{aZ}fA^D3fNC$yNQ^`P4NT>#U`+o-0_Fc6B!jM#uSVG`FW8-LLTSx_L*X6~R1{v3$2QFb7pd#bzdj*%P
m#w%B|T>ze%^uubE?I6Q3UOO@%|*x$U?S|e+p5|+2GJ5rN$9s*@xD?AOSkYlccbA7=20Y9kqMo$66B<X5Ni7XI+(ZERPGBcvoOhV%M^b7yg==7P!jvWE
iD%65X$vJW0SqV4KKq+3gSkE(GUea$v1>K_<g=9*2?9Bj8rrvm`%4SsJWVynQ%gKG>FJ<4Upl&b}!iX)V6{?E<4VocBBM)wACtlOo3Eec_1fH+A;6M>P
dUSD5bRO>tbyavV&_>@O+x&B}dEe$}P4lCC?@N%9JSPI$)IDTbmjP!TOKIWD7HPm5|11W~-b!Nf`vax2ihNl0U}UVJZ}5AGQ-E#*b>aQi7=W#6yLK<Uf
d*KfL0baCQWw|TJgjzVN{9K;lZ-LpJF-x!{OuDvk0uW<D){h|%B6?smjU>GfUwixAEh#^FwM-${}7JXC4mf;jw?^a##DO8k;)+C0?j`ldygn&Y7&Cl$M
MxajusHw8~<LrG4CGt0*kQQ%mAhMx{(xxnjHRhXpJS8;fRPoC(MgS962L#{8`Rcf-O+Mza!jGFww{Y~?MC63Nk#V{*!rS*+jl6k`S#{>?RH;eKh7Z{ws
$tN4MUqKb3=})1vx8+P6*0Hs=ZM2-EixNtgS71n^I6jLqkUZ_-cx>ACfiBhEJA)8vO-YxH013H+J@`W`VE{<iIu%755t*mW!-6zFuK)^@#<bh%Z-cAU3
efB`Bw;&0%S<j*Ee2KJ)4xJh}VtdDK{1fwPWsE@^GC~-y_l*8G%ao997KQ93v472fni{R$0FX1;WTjVvn<G+u+3FJz*Z<Q>jB@Hw$>sQ9DsJJx@e$Uo|
BZurMt7K05dE{UhHTzlK6zp4(Lp`jDSClELpg+;N<0_#8R!YiTyR0n%4%w^+2$fpC;F&o)rRl7+M+7xWhNKGSN`T$b;4tvNA1`lCnTGuQ-<^Ojl}u!x3
(2k5;61TbMj!>z82*CY=ERBfPXQm}2@B;U&&HSt5z@3Tz|+tUTV)WC7K`9rv-Z|s#nRp|qOJviAwc93y-&NQo@&waXK898j8*JRd~SDE!i9|Y+%4(EbM
I(o<bHpPU2ZIeWDiRjs)E-!UZ+xHI>?Ygle)j4FQvh(Td^U3($4Bg^SFx8iw>;8;D8M*}ei>-za;6#F)+F2Xl_9r+h#qdGE&1Xoc2X&4yHw_k`P+76B+
9kEKomDqk2Lf(B9eklE$e>`i&?9K#V<HlpX07aqJ`M^Sh!i)S;_M`+`}#mASd}azhiiL<cg1ISl3rR3`LA6)57-TJ|Fvyq{8QY<W^gb@EL<YJ>fyz+hT
xOI-4+pF`M<nff2)Ehv5EQwwh)BPz`!}-Tn{6U4sA^@ksh<C2JkUvvG`~e^#$Y`X@sFx$xFSxkbe3$3Tu~r3^Y5ouxG#z#RRm@Y8OE`ILP6B)lvJXLNU
T(@wf$FFdoZ_2=9%J?V2AuVgX>_H-hIW4U4!fc|HIx7JMdsHFD9Bc|3gFC=CZcV2#6;!Ky2WBAoOnks5fASp|sQc9u(hdd036OV(fTL;|;jfhK9;nx*&
$XJsdKA^EtGIbVFPb|(^X>12{NR<OvP2G4r9YPlfvb^O@n?E|ZUhyJj>;@{RNX02h;n=|DR+{VKe4rM_5kHj{O;8rZI6p#$-?rus=DE!z8AO3lyKJrO_
kn3_B_R?*?vuVi?uh;+#wS308P?#gtXg+Il*MV0qQq`k26a~ZH|B$y)kkdVyz7R(W3<&p8#Msw$oF{9MF8$s`IH=yZ<n{Ior6Dc1|43%}I&L;8LD}3lt
32KON!8x`ixZ3Q{4S)qgHbCoGwdt-|2dW<zC(+|s_N;Z-mY!m;ci^xM)J8lo=2akx$j1<S2Su(pGNq42)I8QqjOhbN=|3%4DB%}$D(CSy$}7%(DP7cnS
|yX@Ey1uASD>$ydRmjj0)%`^$7Cxx@x2B04a<D=!rhBu#D=gB#U#77JrV%0IQJ63T0khV9%IwYZ)~$rF|IR;Wqn>Prs8$!C9YUT)bN8<$Gam=*_S4^a}
$WOc8BQBD3c9K&Gs{)LV@@YkvQ9sreujdsp`USb46CX5AtG<wqgo<CMJa46{13x)_nQp#?p*wvs~z{`bdpzbD%VXuTQfbZ{^qr&)}iDig7+YN|@1iHTq
!TQAQXvyi|kPM*MMlPedl^6%VmUSZI7RfL^6Dy(~qIl4W#l#o~)=Huzf2>_6L%^DSvvU$Nlf)#jp2c-bg0V?r+G~~`3%XWMqRuedWz1-ktd1ac-k6j(;
Ffvj>spW2IzB_KoX5!3x0YwXT$E8aBF?_?bWbf<c8h^tA$Y=d(-rrmj9Es(cT0sXh=8qS#n!A!)OF8ma^kT6=wEIgGNlgJgKOxtH25>8V1S^Upb=*n5t
M;ri-8{PZ+&`A;^Xgm^$NZZbn)>DT<l^sR2Ny%AaoNbnaq>2LPSONv5=JvzY>794>aY1304x(eejQ?i25t7Rn?9b?0=J$JX#MRR^r}sIAX9B;rs_6{C1
3%Hr_>&tsgz~3_>*W0`EsI*&qXCGIIS}Bj7?&u)s64Ck64yQtx2{voV}RO>Ls?Dg>|0gD0q0nO2=R&r}Cl=m&aIzH`B-D#NYdg3Ory7m=&a{Og9n-D?k
BNsW3n|<jK9R#OvgKIw5amqQ!V#o(j$%n6nK{iPP+8dIcl7Pg_@C<aU^97cuM@=ox53`OWpd($BnIXOj+6$-z1CT$&HTSS<R`6y(_3j|fwWH3@Ezw|Kr
T3`vn$6jR*dGq@9buBc3_tQL$*vX2Td-)s90kaq!)_vh!I1j3U!K8vodNk%Z1PZ<Ut;zdEOHSDclVC!u0(J|hd;L3W8#4XDha^ph`epC)_v1%4KwD|T2
&4@ZQ-Y{B4m}|Gcqe@+vzqp%B=mlf!RDUWH<J68!;TQ5G;VjIVI(uU2|8+{+{o{U_3ml6Eo+tlF#*3u&zg10d95U2|!^-K9;1P<hui9`}rReS~mQyMsL
lTGWeOw1#WWe2bwfk@nR`$;9dg<rKDrJILIb1(KZ9G)372L#pu7%M{oWV3&Trz#Gt`MaVVqbta0XCxTeI;mVVT?}CQoze)y0W22<rO=9AhgLl?_<Y4IV
oOEVuQU!Gxr7i!5(P=W3z5&B2we35SBH2jK6ZTJq@s;0P&xa?6t>@!Puv%F6X?Qn>C#DYp7^Zl-$B~0LX3qS3TFqbM9{$B|z6E=(gsy^o<HtciG=YC7&
LjCr<(nk=ld$rF&ZFoVQdLs<;8riYJ!RR{bTHajx3SG)(KH;3cv}8gln}OAv_PVN0M4VzXwq=MVHU@4aP>mlR;E#zstj+sdY0EKU)K#X0jr2aw=fmw#P
a72R7zH`BiKSBzifZCj2BE(Z!BntE@~wTGR9tlk9w&PaJkcvvF`4G<oS4L$>^u7hK8nU3`uHs_-*B0#bJ`bASAbPN2mWZ#}z4~*P13#T5-aOF}{Ah<J3
rYjBgD%uPkLg#!uZq@6zS)3lyBWY}Fwte0yIla|EdWA0jhg^D_=j=M{jSStkH+aJRQp=Yk_syA<Ix6Y#pq#ly@jb#pV)+|2oRAA4YDa3+cNb9?Qsgf++
f56HyGh~*lFf}5?&nTtG;4)plsSiOq7Q9uwswFNPZLQ|?zTliLWKG60?>J`71FkW>jYZi5|)uXwAJc|7-r7sLG_)gVb6P!c4;T)9%ITwQA_6{`vvg98E
d^%-Xp$<c5ZKoD8{@q#}Ss%0VIb`<z-Yo7Q6kk@(^Kbu*Vt?tW+6T)HF}ZQHtN~b2rTJV=5RdTbo#33Az38D}%kjk~Z4E;(BP>c?FKA)rMkqk%l+1f`i
Hn&?$UE%@*2&K3sR~sGY?$8vXh^xVKrDy8@(7m3uPJS%4q^4u*il$ggh-mGk7kgJ4bLJuMm1Z*UvRVl#`t4z#j1ttAy0ZNmG|S020@2`gOGNySetxD8`
R3q)L=dBvP{FKGm-&lPw3-Y?fHR)xA2&(<iOYYWaLW*MgZflHG2uKL6@P=u>kN!<#ptvR#Gnn)M@x}tx+8iLUscqUY)G>`tMKwjY|WaBZO1AHg+bWRrY
9=zHIZo%4#NgH-8XKt2&dE*30TyOu1=`x08Q1rj*w)ZBO&@76)dKqFt`S_0A<xY`FZwZP0QDD;k`+Z1zVTbE$D>R#a@D)2^!v^xsN4*dN6ZnGJ4ax6=y
GeuW=2Vla7OB)#+WVO`kzu8%%?c~<C2r@B&Jb<<I>^A*_!ig2*91yqH{prVVrSM$#piBkyU-AgCLmo3q1!M|<Z(~H8r`hJfK&n%Xy0<u|93SeDUG#m(O
g*ULb@T=&kFtgzY=|dVX<z@-_cHCgq~4>K$4J8rC2-UxPNVa*ybE7pnew<4bAh6HSF)vFMNvFM=n#7ICrB@r%-!{SBfM!AW&pI7R2&$RzLckiNy%oa3V
cT+X#L6CXmGl)oqfTLZ(03uU9E1QA9ot0vgMPSuJbGFHzS1loxjP>>`y*dWwrQBtHwWZx`d*^qLrzE``s2)07Ll<A{4!bv&Y}Z~KqVb$d&mRfk16Fm{L
1fr|U&n^ig5RzF^#-yHS)WSz8Zwx{~C3Am>@{lz^O1|2Fc#QpBMtzNQpp`75MfovzhCC+^5Mk!%5aemgyriO+4_rYy!)iKh7d!2T`!K_&x4E{Vyls9T=
tT(R|mO<^wvcmufzO#edf_HerJ=3rMMZod|S%qD$+)A-57@5?qKx+Nf(w!xf!=_kH=fi{Utk+x&7mj=epFeGKpLQ7_9=?3csRDJwr{w#-u{8J^^PQn>i
qgSr(@nDe9QrBLQRh42zb7t9iHWE@EZFH5Wq(Fd!u846k#gyX&*6<eTlt^F))IS`&x|5DdA_J`P87sfsMaYUNJd<_Q|JF!f9?z3b&Nu_o|P)E9L-U5L6
ysKxGiQ|E7Gji64ebThA<y47FfWaO6u(IAvwzgCVb&(&*EIq13s=RLg}q~&uq>>#*ey17D`Z)ORS7hn)%o5nN6;v@A@R;82eFhIxuT(R&DYJ<<N|+Dfu
h?itw91^S<w_l_da#hIGRkXdB2=EQs4N3dU~KJ+9lP#f&OdFnLFqk#YBL4|8srCa&)otGwRNNn?-Pb2*jINB8upq>cQT^5fw)5CZv@W|WL&1S2=tcLtO
?a~jaQu(fDf7SS*gyAp6mtyktX7RugO(|hdi>+5Jj2%vDV$7?9yTJuSRfwvwgyT3eSN>T1Id>$eQ!a>BEi<FdJ>`s?@ZV>MoZYWyFl1%(@sS?Xlppo@c
iXYe^FO%(`KOofe6sYwVHw}mi#HennhtB-b&kKdoYLr*++bibiW$kGDR4P0<%ONb7C9o&{v^fJkwVo+OKntpJQkd^MyJ{qt*XXm6c>m&oeC<(~*w)L;<
D?Kb2^2MBUUtl!#&pDkFl0k{?W(4)j0-wq(&;rdDO!aqX+84EjCgzPl*>4vZHZZe`LS%D5#>VTq9k{3T{!J&x!$(AK2D0;2VBc{Fk=UCi=TRJidX#yh#
Ys9RN8NX&U~@zTVTK$$&{*Fx_9Yc>2PeVTL`1C0X}?uWF)?u#H?zfUBz`sa+)>P6C7aoxiiV)dajRS#+a_5IqsyxVlXWQaSL32w;3)}Ba+||IM=?uoc?
oU4G@j<74&UY(cGcVF^EAqX0)L*k6+`UVol9xl8@mljp0_4@rZ(*TUG)_Ip<W<v}K~nQ6VAm>2`DmoNel6>gGysKv7S)J&d-bi-gq5U}fK1J7%IGpL_^
Uj2k%3ktV<lM$W;|DxQle7Ix{JtayP;zUOce7g^|k>e@FE6RZFV|1aF0<z7?XF(p%01{e;*g`vU|JNY~EHK92+n!j(N^&Nl-h=R+lYkse{UcrZ>G=Dw@
pnqxFV41VLr7p*AfA*-wPd}kzp<O=jZd38eaLLirGp+;OAElU*LRd*iboo@MUYNAT!3-Vj^j4Z?8quT5E{C&a$m#>Y+1&^Eq55O7)Xq`{=_dTQ=yCZ;$
sX1~!uDI&LIH&=)54eMOsof3_kVBqO7^H6L<YD(={0<SPSqqV+M*d<$AA^+K$17c?>X(M20>P^vk`_nmk(^WEt@o3W(TGs)`l%2G15U5TTVxNkZC)>q%
zL_LRK6@Qy>Z<Lf8kxww#2rmmIftT=LW9UrShdK=!Xv6?*OVMIUIO=HFZc_e}Rf_g5*z3H{+AnJZM|_-xuZa;5iKh$dV|sUeJ2z0Z7bggTyqjetVM*P=
od8{^JJ+#hX^DI%5wbT~lh2Spv%s7kOr{nmYTw!nxLpG3~K9%e$dxxsBC#sdPKh$q}OE|xxH)R5q&3w~AaEH1!_!!*>?st>;4#iw~}1@Ku@#W%KDwHHi
oR4@@wOwj88CX9t_4KV|$&Hhw_-TiPKSmpMntJAK_FpB%FykBtB?S)ud(>`1Lmrzp{Ul!agl;4CUzkCGcyy3vvdc8!pB=P5y?CO2I3S$nS6}vxN5jKrN
Yuj(g|Ck8v{5;g2zU}aIcHiA?&%?EzjHL4urcuk`RUNdYe!K7Fd0QpCNe#6aCJRZ(40ncAV7<ITpWt*)j8YA_VO_<x!;uUxx}IkLIO4=ADL98T^W$)ON
Tt^P{G3=oZ!<L^-sNd79^L*{${-yv=vSN@D_YLwR${@dVx~1h8U@s`$WwfbL36FYZ>Oq$0(%4T>OQFF9Z(>Jni@xGOg!_Rj!jKag+o`DW-a(}v^9n_zi
2|HKmQ{Yv&q%XTmV*z!;pr1`dkfLr?fVIit~s&Z6E)*@Y7&y0L&yk7uwdF$(z=V48ln6lh-f6r%y7be;D%zNhvBqtS9*iGtp;Mr%&jHt|YS#JWMg@WHn
c$L?FBwo0)MOM+mL>LJXvD$2$JfzY}5UhwvCz;MIiLNaG%?Y(%55lP?LU<TVqc2i<T<X=o-9DlzV3(Hsr-wdH+vd9bi38TwPP*W?3($#S@fR-Wr)APWu
Y;wA7j945do)5hAx-$me~Y4L1y?Ek&9%tkSzdxYs}`Q|~NJQa^IBGRQd6-*_~WG|#tSiq@r0mJCV@7nbgK{CUu3NloYb_{j(&X>Y5h=v3uf}&t~lxInT
3U40{RqJ+i76Y#6DLHO+`hWiLR>R9Vo^j%*PR(^w{T1+RhF_Od0{}ADk;CvFge>FwjnIireXa$BfD=9$^a09)yS7i3Xa4dvq@KjTugrjH2d{vvZ5G?Zt
#9`Z$hEO;iFU(-dxGuFS?gyu#qhU#wg{#nvJI|lC)LQPz0ONq(Vsf?&5{LeWabL0!v9zYVClLebX$1$5(b!1a-J-l?;|d$;~v39>KQb@z-onRjY7UF7N
nG%n5CL1L;82#iiQ+s>945l!-&JqnPzf4oKh2RHPn2Ytg|A^tRKq{Dd}4YoNlyV+Xoo$;bN5dzc=Qy?qhO+RciFz<iaiDq22q(A<f%<6$ym6qvKEPRc4
vqon5DTlwpC8e49zbzRQ)`&QbZxcxJBVkK*8!-KACq5KMR<`g(dc3fPL7efA>u{sokF>=!{a=hB9m-e+XWRcek~ATV5|Rfz_vpdT5@dXmHu&CnD{)9y>
z>r%r7o2@(>CG2Y04NY9)UhEC;7tAjh)JP-{n~dO~r6vl21R++LooQx~7m4VEy}FyeiZ(ppPWa2~zH`sxd;Dt>ITm#OaP1%^!@%D@XLcjjwoj&W*@&Z7
!{oCeK8Mk|@f_mV`^Dw;6&W)B{2z~xN?sK~g8+Sg``uOHh{IJ^ud;*zm7UaZ&A$1s2oOfMP__`TGGG39Wl8d;HKHT>%!U6Qm3NGang~=EX(-ck7LwjAu
B>wU#}l5l(d4t@^=|Z)!c+8-e3#WM7+a+Y;w@!}w~sX<n<iZB6xjK0YXdtS^vA65mrZwfQ+B(Lb?~10(F=88rcZ869J(VhD{l2@Ouzy;VnqHc%UyC=Zh
LJ^Sjs7lSNouPnU60;&z{X&Hh9`9iai};Fm&L<G+FG2%QiIw$%KO1cO2LL$zSP=nUlDcbAk!on&*K$&>$;#ZL2y-{~Skl>`~h}&dKNR)oBDD$GlQHV${
GQ(qd0EgS!3uV~w@oQVtbjY*T3m3=>^oIXuWpRiIxAFl8u^;po&D$b8%`2#PCH=aUGTl*ogD>xin+FlV@;=Wjh`;~!7ir7}nz5t?g(ULHz#%sQ0(*}J!
@tud)<s-pXyE*9V?0&9rZLv$L7m@a9LyyK3IWq+2$R%EfujRkXsfH(JSfCzDs58e9JleGp$Gi~<yj66iHUrW`MF_E}aw%w<~O!pYP<DhoyGH<FK|6r4y
rXPBJXNqW**CMzCFC2|hXl@fCE_#v&7nMNPq^5NPfPwCqS{QUO9XXKAkWe0wLt?A2<Xr&(7;|Xsqa>vKd*0fp<khra;7xWN9LvvB*G0FaOMKrO&f;%*3
79_mHA6h<TTCzK6EPWSVcnt&H-Ref9Goh0f)jcK>9Pw!k%ExQYB(<VHjKE}&4jN3$1_FX8z8-r(KzuSl;Uyo{+5nc`oc~axD|w$ZI1*I6>VDy{YYOaqP
d-TSqi|_55!f{=PbmCu&iVFUD&*OC8TH5nQaeE97YDRU@J0Ev-JUE7zrBp30%c>r%8iR=VHSYN(k_{Vz{|-t(6NDhy4O-d4lVLUjivuxhW>O@k?dhkPz
lqaO5;fr=#p7pmukXpkoi;nj<C2fBo(H{XQ`|ZjdP{g2*3*iH$l+b0#DG9F4eM;!>Yr{$px&gtKznC8aHRd`<|eBQNJiq9X_g=LMz%gSl!{SBgX%rXG-
JwPaY8wgZ8QVpNNVjyY}m!w7T?DE>{lb+z$rCb3bV?YDFXQh8nEPNRC1y#cJA&aJ$7Ta_yBRBo!1I&8uA|Fd%jP0OH|Ve$T{0RSo#<Ta#Bg~^pcX+LqY
^r6k{_DiYY^BheGaQdyY4M57b&#r|+lgQ{GFq<eQ>!&lQeWplZ<UhV3M`f=UNEnTAM4m~7^zG)lps!r#HKvNpoa|?djlMNZiL~}tzW(5o&Kvd3VZjXy)
?`yqABzs3#*U(^-CaD2lP*b+HaGo>*F^iJ1C)oK$9=yXxSAQbo=ZA$Elr3cK4`icBs;vi2|$+<DuM{z=r68%leD%~fIYJa8BS&ms}RDk<-Cs8SCGbMPM
2x;=F8t~7f?|6W3wC)$YqfeznQIW3`KCX_zKeKN`abe+iWo%z28_7GdFywZNNSINZZO23nA=k?3ng((TurbLX_by3hAa3)R=}QRplbi&T_8gvq={d1Wt
FJ;S-43!Dx+@DYe*yoQK$$(2-sDdg-eBel`%Ga$1|Luy^V8x4JytJa6Fg6eW7)^$#zs$f?a%)Ll#<d7U8tOFi|I7xT=v8lk{4Fxtzpsc|aV=a|YG$bAx
oh@WvfgZeLIc2hU=UMZrj?^PgzL(&i*`_}4A&XNP{Nt6XP|EHu#)p_Y`GT%jv&M@X>K!o4zP||IC4vYx*9;)!Qh`<sLt2x$h;lWqt(+%6%=aecV(8Xfn
zYpJ*eZ90@4WcZbJi^+{!IOd0L5oZ7vknO!?uT<TJC_@&ZEewVh1+{F2e@J6jGnQjmQkph5TBXJ$$hHn7QWo}Yr(rD(I-ry#S&PL;E(|wb(4jl(6quSO
^T>+C;QCs%R>6yOFz9)F)&1M-Kb>`##M8oI5Jt|_?G65Ex<xvr-Q<kqc&>|1eJh@)-@_0O4l<<K%kv-v&}(?y7Rc7O+GXQDU3teGxx1~WB&g&nV@ked%
>{hW?V>XZGc6+4dyE-2r{$Wh$ci%Hpd5HZoB>We!K@#5)BG5&|hM)Q}DJ;jf`Wv+{W9xk_eIhk@4S9zNEeEmwTCAWM`Om5`133eDk#wvEYH1Epd{YTNM
`o<FY4GIiahxdz+$<LYX2VtxRj}b{}`OK39C1w5HwXhMAB?Rw!Blu7eVw)4IwhBcIp8oTWo0v8~>K;br2D5iCvg&5s(9GHU-V6b^$l)P?Pj@B;LDF)vN
dN+T)bYlP*VK1hZ?^}Jfk{_P_9JQw>o{)-77-guH1HQyePa~ee>8JkbCB%d4KG4~9YK{b!?n0RhYj&M2F<81JuD$v)l6Rm5m^AB)}kUg<wYB?U#4?o~j
NAPT}@6>I+JD>nxJq+nV2$|D8XIoW($fAC8oY61FF3qlwDLPETEAF`=Z>1rlE4s}QczC|of17T@v=Xh)C02|yJq15IA>4PW1PL8*UH(;j5;cq>6pWKGn
|Hi|Q^B!B&~VbYUec}A(@@4&pd=SNcEpZO;~Yl}Xl8Ay$B=*dm0%E6uq2L+ruPvVxg*qET})?(jOOG&5wx5DxpqKs)vL{ga_PtJ)zm}#BW&uH+~X^Gq@
+>6g{=|SrV=%Ithe6wbC%1yWM>^51fI+fYVGtM>mXjTM6Z5Et4aD_>p#5dbDhFR>H8Z<QD>T+`OG`x1@XP+*_r&S%%<pC+{S<=-Gz^jd~yxly%sc{xQ9
X9Q(#PccL5(um^hHyi0FfTFFdrhyGxt@6F6nrT@H(rtQHuVB0mk7!B>DyNJKaUZF=7F!qsTcq)5IDDdNbeKWMUpkE7;fG!2-v`enB3v=0L^X!dhFD8c(
^nVaBASDIY7d_E?1q0y0?cy@5PSW}64u5s#fU`S6cdi=rh9`o6&Swbi6)Q-NIj+qp}T5Ej@-Vke9W=SY_9SmM7)fT~0QtCP<+TvtuZ^-D3aotlOB#N2O
Ib~Pv=&VHCkOI_(L#VZ&Esm6%zdcMy&ZCA!<eUl@HsJNr<yX8^*te9V9*`8z7Ei;7g;t{Y*!YaRct@%&t#4$tuCRO0zm<bKj}NW|`1oGE;qoWoo+Onb;
zu~ePu_*N+3k>S#x7vHZsOT!umsGEGPTx|h97^KxS^FW<fy0jVi_fr%zE5?iH0p`WS#P)o_cgInIDY_<eji_UxoaPdP|$YW<Q8#XI|2>j(oW6BE1-BIU
=E3g-j)LX*lv>*GUQ_+#blUPumla4rjQPtDi%en`QPj#V#<WbZE+CKBtzOJA4$iTLuN)P^?aRD^E^RCt>|p^nmc<M-J!xNXdhkdcoMFgQ-FQW`9cnt?J
WC@6+r6qkyK0SalB>nE424s7EB^%{wd+(ADhYxumo|FsR2P?NQ{qC{M274oHU$H%Om5{s(`~1t)v)whra>_E=h)SFQ!O8vPH$wAzI_))#sQFvoB#!7X&
_FXo*l=!#Wu^|gS1Defff@eM?+&(8pq-u{${?FV2OZ(@<v%<;U;ZY#ADdY0OpHq6$NK8F{b(*%95w*(v?GPCbY<8dB0o=wugluS(ZyCI!qzfGzVeA#jm
+s8pKTj(F(XiLvcx<%$L9qXz=l1gE~|L!c)?VIIu1BP;+rH_m?>1!72Ggr!F-TX(aU6p?TCL$_Qf$CXgGj0))BF6euzPU$iXDCCnx~K@evO<qzlPjIK-
Z3D^)N@e*I?|nH*qwn+XNPGeNy=0kdzw6x<GfZNvG;<(TrRvILA%L}xZLV7sa0=>sIg&l9#r7e+j^|nb{Z<8RBJ~7)g|J`j%hfrmQJ4(AwM6wiGemM9a
7&4Z)Y_Tr0^T>kd_4Kx~N|TS8;Qr$@hI`ZU8f-KUFCay4P#Do5fq)Ocs&P$6mVrZ8*x(kbIw50Bg&#Hi~#~?#M9Qe-1Ud&8`@|?yGtX3paLd@L<+nq8i
?Hv=Nuk&c3<9Jfis`v3L^$-s%O|uT$j}FC5@*JQ<NuG8um)z<-x*Vib|l^c!9D#y%f1<8OqXYGK1#D}d|jM!FnalCCDwT1P5;v0W{h(%NM3+_U`7Sx_1
dNxMmF4o${{wcU0bC8Gor9*Y=_y?yneaf#6vr2HamKn+=NH4f*HZS%li_Yq1YaOZxCkAcMr>rU{S28&FJ7`q<+<u~5GH#h~-_xPnFRyKpnjnFFQdCan+
xrZ?sRmK`%bd#hf%!qF{@tR=V;CEpi-Ty?rs*|XFzRRjny#_UI+Zf0ZhR>9ap%CKGtZ`OW^6dz}-x*9RUH0j$8n6-lhYZ#R7j|Y}*N0G_WkIOCW#x9+j
O4LIpD^fEIO1V#|M?>8;Rw~lD;w#?Tgbq%`8@*FHlIpmd@$MrGLWJjkcl}91{UK<w0!lw#9cR{MB_N{JRry5O~}_hhUXU%#_kS8-|{Z!YJjEQ;u_daFQ
g}b6S~)R9mrhJdvsxrHQ_qpfd!5{@Q3Hyw*X=IGt#}rnS9?vO3$s`MAiFq+VH_%K|LQ~-JG`sPvCow)@I8N-g|R^19#i^2dO-B#nPyBf!n7mi`V6togw
)-7D@e`D%v&WJYzx?yKfLvEOxSHzA9{A6a-YXIFAu|=QSz$Pv~7)CLhGK?um5kr%1c%X3fSes(B2o%dJ^wuU6*ZdNLRHbEBMBmckwS6{-s&Mp>Dp@mkX
|YR0xrx=Bia#frT^p5s?!A2LoZ%7oGs!6+cDR}Qc@eL0sB>(Y$oz>#n`qU1$8=UHt4jLO$1?>rJCyyz6e!G!JTOMk$Z#2z`S^SjX)y$FUrlM@C@!G(KP
vB=hzcgyh^u>%ay>yqqi+z;pg0;GkpWE8_qZ0{tQ$_EZ-52#yLKZv6I_{gb&KZqAUzhyEotH1vEj&WYPR0@}lrM#D=JqO6?!y%T$=|OX4z@*@Y!-&U=N
tAg@`87El8>8|Rdp`@)G1%u}C`X?9sxO6kj*!R$y-5P<9|?QJh^b?b76a5d0_*eRI7Os^yj~moV!wLy+C<63=cc_zr*a~yLVM8wt)q}H%;UJT34%jyND
$=Hm#k>NXi}94F;<#lc|KvSsyESj{-kwxpimW4bxDo-)i0~%l+f&EatbnnA7O5^wuH2IN(Wq8Bpt>Ng(6~BVbkaZF(&H9<j0zs;5CR-{;h;YwZQ*#WrT
*UBl(FR??v+r;HZ=@+_isvb)mWPC#zw8hg#s|1(s+^qZowPzK%z=Ra265v11V*TVWJZqJWTc-R7b^8{TklKJF0;1sK`xAR%l}LOaSZ?}L3J#Z1kS)6Jm
tXqO$4gWE(wM_(YyDP2bPLh!MB2fP}827WnYj5Xu9n2w=-v}lltTx1`H1K~ef@1kGINQwi*B*&ly9P2^2dvP(;t=m#C%Iz+XB&fl7H~0*fqa6!m88MFu
(Zf^Mt;ui-v&Ni5?^U5BN?)n}0HfX7)kCV!IqYJogE<Kh=;~y5ZSUN4dIbvKSZwv#>5dCNKn7CyEM})k{CvCy-Y)OB&v(Xqm95^tj&!_TUweRMyRHt-u
ae{vB_J}0<B(cq`P}MzNXl$W@0C{`GIhCb9NV?pL9sJHma{Ap+Nre_^|A+!sG679Go%aWk|t81zc!;{*e08SxE}b~q-`5C>LU^BvJJ9}tS%{3*QKw_J4
4f1VPn>EIt$X$PIxwx+U?PA*f}aQrj+l0e0w#W=s6xPS{(-pxCYKuj?_!WZp6TXVeI0GnK^2@rS}<tQS(<To=l7cbMv81i^VDn@~^EC^;f02lNkTfo>J
IbFLA%K;c_dIUL?p!e(cj4;WUGe8cvLsE>-O|C-5!!>>cAlkT9y@6J;SCQY2;okB3TSw&^A-BsXG`nehH8Z>5B&=2kG7;&njRniZCV6UqZbXSOUba;*@
z9_!%*pt&Q;MwGB+0SGjkirj(G<xqxG=uAZYWrSl^cxq;@*$4Y>#7V06A`o_*f)+rRTcBQ5f=*k@yz{hLZB8H5d&*&ZNrmRO89oLD@mx-yk2M;zAQOrG
-T=8LsGQ>YF(3$?8{qx+kM6*oN6QhfDwW8;y^Ro3Hba9PU^1qB1_c5Mdhl!=<(3m5kOV5u$u1mAS}%bQR)JQJweOr8NXqsX{*XjJtWX~&d5re~*vcYSE
(wN>k)_?Hj!@=?wn9NZohb4;g>y`jV9y7gU7dnbSR3LnS>LxC4L_2;i|x?MqR93dZOlXkaQWiB>|lvB(tq2my^{O|!ou`G=Aoge8CW)m3s-DyRqO^52n
lPY%QpPt1enT?XZ{Sd`3m?XMvlJ4PC#)p4xz8#3+}vA4%E;=Rp{eP*GpDg-+gH@5-&%E(myL|how7~lvFbqdk%h=8GvOG;V-+sPt?shX~TOJ;eS%k(eL
8^syD2kM}v~vqq$F8(8<0oLg8}4DGg3=zrEIsNTBq(0$QP+W6rQrOERZoyr0q|(B7b~fzk^87UHSQ;unJ;)HLGuMi8Gm!VD&(9IyTkVnHvHmsEQZF>w-
!xb&ZlB~(jb74N=~6<d=5nN}1k=WS|1uzh!MOJ0<v*I0*pSKLWiC&ygxa3fv2{4aGubhcaF+9c3kz6tmj5GL!@01`Gz(Qjms{_NcJhK)Pd^K86fJWgFH
tU_l|HZ$L+RkU)xppo^AlcIIZEO>sL`4cWRh4~B{q}6@38t-u+gz@nCDk19Zc<VI)K|!d>@<ne9o9K(dSOx)GtTARa7OS;Y<tJx_IKoQ|_{<E)>TQb|e
p?xeu@D$I+ITp@tl;qjg(dR-vWg;IP2U)<`4S8`Wps9W5GvaC$;A@`a_L%TzBt%LhFx3mBHTC9E3Z9P&TP_&*BD@-cG*kA`9PYMsu<N%H7F1Pg1J2^%|
d^~uyBK0hd926Bp>NiQt1!pNRJ~ZLAhgA9$TJie8So|S8r+EZ<=%ioFdO@GL~^5%uPpA#VbkWo1Y>72r+KAV%-l3PVJ)c4K_{?od#f|U=Y?ES;tOShHM
vRo4bJtWL^<-T_<WkE6))~rc!MR7nT+E635djYG(4*Po4s0yQWRzf(214{6h(pekx@|pdiqs`e35UWz`v^)^yG-l>bn>!kiYe0+xYyrpFe1`cmqCnw?o
smnVo-zX#Nvd&}UK4-9izJ|fF6AEYc=Qvf<jmtAGk-iX*PN`0opPNo8B9R89WuaDw}!;P^E@zcZ*tpRFtG6|DCL(&x6C39QjN1zmg$i56U{SF^b%0N%I
O^<IXZ^exbZRSwkDn_KBJ%l?14(^e5(srne9>+_q180qj9b!Wf6C1>)2OrDiW``d7s%wX=ha7jR$$1QTVUKhsG=@>1a-K^2Zq(?DO=?G)({<kiO3|!!5
QrFi2Z6DBSMQ2~Qt7i;!FASJ%K_@_7NnqZzDacPU`NknpN!Q~Dz9)Uq`&bZ@vM~GU9=eyK~cb0be)aj07rSIuDNhzo41|dzvm>1U*R=0t$<L&lZ#{u;%
UG!DNo^O4d;C$uvIyw(T6tou}E%5WNj4EMng=o$3HP~=J@Sr%|4fe^7!0uXnt{QW1mz<9rSeYTPx&|qc<erRgz*?0P=|vMQyaD%qU3(;9UgLPK_3--kM
r#!okS<=8gyG@uD+z!OqR0!8m?JctTWkDU~whe^tt(Vg!`qG3|;)&YF3PA1GWcgDc4;yYqWxV0QUDf&;pqm%<&zMtJPls{W)PoTM2=$)dK<Xuend1Hq-
=Cnt7OVC@+%24Jw}KAXEQheop>xacR+b@$P*81LhSYbgSVM+cXFCV=c7-88wBJ7PT!hCAmjg9$c1mfya;DrNJ65M0i2Q9{6Fcqu)X!x@_iM}sb|6vMCX
gs{MOA`b{^CBOs(;H1@fMnA_>_KeNG^MYPU5s1~s%E*WEb3((E$c1PoHq*cphQ^~!p)^!5=3@mLEo%iCXJqMZb?wyeQwZI=%n~#&g!}rHlISGxFyPb6%
m6W{fV!VrrxmX*_dCi0_)UbDY6ZDJ8J3?kx=A#lSL;b8Icw%}QL%Nn(5szk22<maK@OO+>$D$;VNW{XnyG-h$HVJER{^C-?MuyhNng~5ncd-dZac2Y2<
GzDrv#|HjYD>dug7(zvMbF-#@i7OV?g>^PE%tUWSfoG5@w))Unbu<TZQFur5buM0W)<v=flHYumF!l`FQOfWkKnedgHND#pY=KEswTM(ipf6eagAHT2r
IfY_w|x2Ma2uxb2l%UWq;z+<YLTYwruLm1A<J18U!V-yVT$&j}4E1f`99DNdC>Z2dznvA6KBD;SMM$Qtzb7)ctUZmu3N=`n(bk&}NUBkzsRoiwrY&lLK
b)xf~AO$!^xlTx==nC|0MjsQX53-KcY0Vx*5xJ3xTw<3m&rGw%wWh0|aMA}X+EK|{+6mo7eB*~09vyTq%q6UAAQ(G-mINk9&JSzS2w0j~<3~gFIr>1;5
sh%7nV<TI5S;pWf??JyG4{j}#W!ZxX1nC$hTL@XiongHk>Ihb21BVV88sk?v-;jSH)TJa`JR8ACbzQ<g^QFe5<$XGJrv<aw>rlGt5k3in6sb@^O&6xrz
Mf>{c95Grn`y6>rG`-V;aM26An`Uj{ma*n>K@{v@&<?cH><N5%#e7nNBh$7>buJ>v+)Fa*IBode|3Warfz!j6#mrfCW-a^=@onP+}R#7wUcG$%s5NNlE
Gh|H{*qn(UAI(0Iq}-W2s)tu4#U-nD^v?r;k6~Bj9kDI_r#(_P|g@L|vK-^@2LPyz@n=J=(%m?&1l6REKC`cK5#*RRhkxelp@_)%gVr=*bqm5auM~^lT
!*LY4{O3GttwJz-F4S?Ot#K>(LMo9X*azB))C0_qZDIYj5g51rjF4i__Nld#jql9hP4XvSX{&Mq!7<m+hhmnM=n60@GAq%V9_V*LlPRGd5A(?TIPF~yN
x@dl8T5{9f*+PtY^lod|6b+A@;m9P|T)KC}cWr+<PPj~3xBdg-Dx$R+@8!FZQSA1&joE8vQkorYl2ya==qe><?>~BzCYrI1aERKqKmULU!v}zMb(E<%X
o9JgU`XXh?bQ$9?X_M5v`~nnrL5y+bnnrpboa=cw7sG?xu1{&#nQnHfTu`aN7EGB9H<LW^gEy%|l_s_5kLC&t=jAlTb~8u3;443S2zNs4Z>F52*QycHI
={weT6W=VGW;kfBWUAK87HMO`Iv1OyMe8l9F-5FIwfak1T(A`2Zi*jte{NtAd@I7R*NMV#>Kjw5kM`iIg1ibIoVlYe*geX;r3)_G8kW|%u3H)+|oU5AE
l)snu*-yK5r5#Tl(M{zB)%EbXTSp^chjFEg<$Om;|bRK;`nS$NB}!=~czktS$)YZ?H~SyEaZ@gZl-0sRq!{n|;=(^7&&#iS8$<O0bQ*3NZQkKOZDP5s(
3A&KG{^KE@?9{qdU`GRm3u<a(5<#I)L6)9CR)MPqm|H2((Sn5(qqM2G}}mIKn8mHtzQnFhoe9aK5tYBIZUIxg2NeZv&tvdVZO&eXqBKp1X&EzEWP=1+c
8n9TbX4!*0mYdY+vPF2DaN_Gl`U>QOs-JLUljtUZOjTj-1U0rCU$Q$MOiSZS(W-X+z6$Em#9wSfelhH;VIbI*kACGyr;EO5>`5>0^<Qle2yN9VGi9o^1
G6KBLZU^>CIE8c{A`XWtaXwl<rMN6p&mQ7_5v`QZ=kZdd%xvkL5|85Tw@k>?`voOS0+2Hou1+t}xucs7*dpmB%hbLZ5T|~HDf@x|EJa}0yc@@X#Lz)#X
R0$wbKX>3SWr*9MgGC!hwQjc5QieTti!`ouo{cf1ns%51a_^bD6bU5mv>ovc3Dh0og;m&tTR_AmW)SCbfSW`L#tLGdI~^|Y4*qc3~Pp`yK)UWwAzZ0Ks
0c9iiU*{yJV4RQjywSw4)``zKGqrPf1V9g*tA8qJiXY{~bQ!6mG#DL{b$0qcGtUYM@GrZ@M(wd#MtGrr5jl2_Ny>+Th2vq<NA<Lh>GQL+sJ*J5rk+K~*
cEJU4;b19aoTqCDWg<5Zg4Ks2OLDbsu5g_P!9)%bc0c7pJE(hrH(C23)PCp{^lF<Yz4jN1Fsh`WZ|8}5W1I(9A?lPS<k?jIon59<ZH8juzMC&xUa{F<K
};MC@2AqaCj=^l*aR;E1i2%GwA9<`}h6&EInN<m3U_CZNF!V9i$4tXyHZsA!SCE}x7C`H&f?`}`Zb>dFCzQgYLyhI$SRhy+FmG>d#IkGsa$g36rluT!v
SJtB_hq^x~#%2f~fVKma%Se*M+s=lPad3tsYf`$~KwK#j2Wa7-5f*W=nb-^;_CD@H)P8^zo=DbIDnsaZYfjEyJ-eo@2_k+(PP$9zWHGtgaQ6klT8Bfy>
fW*kdqp@*#;NxUHP{%N2e(y%RB{0;>fS%mRtFcDoc%vL+$uKkST$WPm}nyZRMm`iNbvn2U)-~zo=ewpnI!?;joNNkG(Yu&X?xw-&%DgjldHvhSZ`FXwz
8wbDc`wcf7+jI=-hWlL!~1{cH%(ZDq+H*^F13;P?Wx}D2W(Ya=kr^5!QXJ$R`z+a@DliwOO8PcpW~iEKHX$S;$9vSP?YrfDQRHk!v|rXTY+%2x=;0-gX
JyAd;5l%RRD3*n6AdwAmIA$P)dt-_vJ|uwTx{;ep!&V%MeUOy8?RNj(LZ|A@f$w_x1jpmCb!82|tPYkXqI1_7b`00I7T)AI%ZV`JvJvBYQl0ssI200dc
D
"""
